//===- Clock.h - Time -------------------------------------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_CORE_CLOCK_H
#define FSDP_RT_CORE_CLOCK_H

#include <chrono>
#include <cstdint>

namespace fsdp::rt {

/// Nanoseconds of the steady clock; only differences mean something.
inline int64_t nowNanoseconds() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

} // namespace fsdp::rt

#endif // FSDP_RT_CORE_CLOCK_H
