//===- GuardRules.h - What guards say ---------------------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_HAL_GUARDRULES_H
#define FSDP_RT_HAL_GUARDRULES_H

#include "core/Status.h"
#include "fsdp-rt/abi.h"

#include <cstdint>
#include <string>

namespace fsdp::rt::hal {

/// Every byte of memory that is dead.
constexpr unsigned char deadByte = 0xff;

/// Whether an action looks at the bytes of the buffer, or at those after it.
constexpr bool looksInside(int32_t action) {
  return action == FSDP_RT_GUARD_BEGIN;
}
constexpr bool looksBehind(int32_t action) {
  return action != FSDP_RT_GUARD_FILL;
}
/// Whether it acts before the transfers of a start, or after them.
constexpr bool actsBefore(int32_t action) {
  return action == FSDP_RT_GUARD_FILL || action == FSDP_RT_GUARD_BEGIN;
}

/// "name (N bytes at O of the arena)".
std::string describe(const fsdp_rt_guarded_desc &buffer);

/// The failure of a guard that has found `byte` at offset `at` of the buffer's
/// memory, in the buffer or after it.
Status touched(const fsdp_rt_guard_desc &guard,
               const fsdp_rt_guarded_desc &buffer, bool isBehind, int64_t at,
               unsigned char byte);

} // namespace fsdp::rt::hal

#endif // FSDP_RT_HAL_GUARDRULES_H
