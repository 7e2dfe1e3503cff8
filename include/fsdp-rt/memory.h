//===- memory.h - What a thread of a rank takes beside the arena *- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The compiler leaves room for one thread, the runtime starts as many as have
// room: so both must know. C++17, included by both.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_MEMORY_H
#define FSDP_RT_MEMORY_H

#include <cstdint>

namespace fsdp::rt {

/// Bytes in which panels of bf16 and f16 products are converted.
constexpr int64_t defaultMatmulWorkspaceBytes = int64_t(4) << 20;

constexpr int64_t roundUpToPage(int64_t bytes) {
  constexpr int64_t page = 4096;
  return (bytes + page - 1) / page * page;
}

/// Bytes of a thread whose kernels need `scratch`: pages of its own, so that
/// threads share no cache line at the seams.
constexpr int64_t
getThreadBytes(int64_t scratch,
               int64_t matmulWorkspace = defaultMatmulWorkspaceBytes) {
  return roundUpToPage(scratch) + roundUpToPage(matmulWorkspace);
}

} // namespace fsdp::rt

#endif // FSDP_RT_MEMORY_H
