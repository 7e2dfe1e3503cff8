//===- DirectedRounding.h - Arithmetic that does not round to nearest -----===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_EMULATOR_INSTRUCTIONS_DIRECTEDROUNDING_H
#define FSDP_EMULATOR_INSTRUCTIONS_DIRECTEDROUNDING_H

#include "execution/Kernel.h"
#include "instructions/FloatFormats.h"

namespace fsdp::emulator {

enum class FloatOperation : uint8_t {
  Add,
  Subtract,
  Multiply,
  MultiplyAdd,
  Divide,
  Reciprocal,
  SquareRoot
};

/// .ftz is the instruction's `flag`, .sat bit 0 of its `mode`.
Instruction::Execute directed(FloatOperation operation, bool isDouble,
                              Rounding rounding);

} // namespace fsdp::emulator

#endif // FSDP_EMULATOR_INSTRUCTIONS_DIRECTEDROUNDING_H
