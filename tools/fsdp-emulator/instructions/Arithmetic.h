//===- Arithmetic.h - Opcodes that integers and floats share --------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_EMULATOR_INSTRUCTIONS_ARITHMETIC_H
#define FSDP_EMULATOR_INSTRUCTIONS_ARITHMETIC_H

#include "instructions/Decoder.h"

namespace fsdp::emulator {

/// add, sub, div, min, max, neg, abs of an integer type.
void decodeIntegerOpcode(Decoder &decoder, Type type);
/// add, min, max of u16x2 or s16x2; false for other types.
bool decodePackedIntegers(Decoder &decoder);
/// mul, mad, madc of an integer type.
void decodeIntegerProduct(Decoder &decoder, Type type);
/// add, sub, mul, fma, min, max, neg, abs, ex2, tanh of f16, bf16 or two of
/// them.
void decodeNarrowFloat(Decoder &decoder, Type type);

} // namespace fsdp::emulator

#endif // FSDP_EMULATOR_INSTRUCTIONS_ARITHMETIC_H
