//===- CallRules.h - Whether arguments of calls are in place ----*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What abi.def says of each descriptor, apart from events: bounds of offsets in
// the memories, known kinds and types, operands apart. A device relies on it.
// What depends on its code and its library, kernels' implementations, products
// and attention, a device checks itself when it loads. None of them allocates
// but to refuse.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_HAL_CALLRULES_H
#define FSDP_RT_HAL_CALLRULES_H

#include "core/Status.h"
#include "fsdp-rt/abi.h"
#include "hal/Layout.h"

#include <cstdint>

namespace fsdp::rt::hal {

/// Operands of a launch, at most.
constexpr int64_t maxOperands = 4096;

/// Of a workspace: kernels and libraries take it for granted.
constexpr int64_t workspaceAlignment = 256;

/// Of `bytes` bytes; 0: the call has none.
Status checkWorkspace(int64_t offset, int64_t bytes, const MemorySizes &memory);

/// Of calls but starts and waits: checkStart(), and what a recording knows of
/// events.
Status checkCall(const fsdp_rt_launch_desc &desc, const Layout &layout);
Status checkCall(const fsdp_rt_copy_desc &desc, const Layout &layout);
Status checkCall(const fsdp_rt_check_desc &desc, const Layout &layout);
/// Whether a guard's buffers are in their memories, and its actions are known.
Status checkCall(const fsdp_rt_guard_desc &desc, const Layout &layout);
/// These depend on the library that computes them (ComputeRules.h).
inline Status checkCall(const fsdp_rt_matmul_desc &, const Layout &) {
  return Status::ok();
}
inline Status checkCall(const fsdp_rt_attention_desc &, const Layout &) {
  return Status::ok();
}

/// Of rank `rank` of a group of `ranks`: element type, divisor, and operands
/// that lie in the device's memory, apart or in place.
Status checkCollective(int32_t kind, const fsdp_rt_collective_desc &desc,
                       int rank, int ranks, int64_t deviceBytes);

/// Of a kind for which isHostCopy() holds: whether it stays inside both
/// memories.
Status checkHostCopy(int32_t kind, const fsdp_rt_host_copy_desc &desc,
                     const MemorySizes &memory);

/// Kind, queue, parts and guard of a start, run by world rank `rank`; not its
/// events.
Status checkStart(const fsdp_rt_start_desc &desc, const Layout &layout,
                  int rank);

/// Whether ranges overlap without being the same bytes.
inline bool clash(int64_t a, int64_t aBytes, int64_t b, int64_t bBytes) {
  return a < b + bBytes && b < a + aBytes && !(a == b && aBytes == bBytes);
}

} // namespace fsdp::rt::hal

#endif // FSDP_RT_HAL_CALLRULES_H
