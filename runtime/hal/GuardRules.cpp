//===- GuardRules.cpp - What guards say -----------------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "hal/GuardRules.h"

namespace fsdp::rt::hal {

std::string describe(const fsdp_rt_guarded_desc &buffer) {
  return std::string(buffer.name ? buffer.name : "") + " (" +
         std::to_string(buffer.bytes) + " bytes at " +
         std::to_string(buffer.offset) +
         (buffer.memory == FSDP_RT_HOST ? " of the host's arena)"
                                        : " of the arena)");
}

Status touched(const fsdp_rt_guard_desc &guard,
               const fsdp_rt_guarded_desc &buffer, bool isBehind, int64_t at,
               unsigned char byte) {
  constexpr char digits[] = "0123456789abcdef";
  std::string got = std::string(", got byte 0x") + digits[byte / 16] +
                    digits[byte % 16] + " at " + std::to_string(at);
  std::string expected = isBehind
                             ? "the " + std::to_string(buffer.border) +
                                   " bytes behind " + describe(buffer)
                             : describe(buffer) + " before its life begins";
  return Status::failed("expected nobody to write to " + expected + got)
      .withContext(std::string("guard at ") + (guard.name ? guard.name : ""));
}

} // namespace fsdp::rt::hal
