//===- Approximation.h - Results of approximate instructions ----*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_EMULATOR_INSTRUCTIONS_APPROXIMATION_H
#define FSDP_EMULATOR_INSTRUCTIONS_APPROXIMATION_H

#include <bit>
#include <cmath>
#include <cstdint>

namespace fsdp::emulator {

/// What approximate instructions of f32 give of all numbers that lie within
/// their error: the rounded result, or one that is as many units in the last
/// place nearer to zero, or farther from it, as the PTX ISA allows.
enum class Approximations : int { Low = -1, Rounded = 0, High = 1 };

inline Approximations approximations = Approximations::Rounded;

/// `rounded`, which may be off by `units`. What is 0, subnormal or near the
/// largest number stays.
inline float approximated(float rounded, int units) {
  float size = std::fabs(rounded);
  if (!(size >= 0x1.0p-125f && size < 0x1p127f))
    return rounded;
  int side = static_cast<int>(approximations);
  return std::bit_cast<float>(std::bit_cast<int32_t>(rounded) + side * units);
}

} // namespace fsdp::emulator

#endif // FSDP_EMULATOR_INSTRUCTIONS_APPROXIMATION_H
