//===- Bf16Calls.cpp - Rounding to bfloat16, for generated code -----------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// LLVM calls these where the processor has no instruction for it. libgcc has
// them from GCC 13 on; a program must also link with an older one. The result
// is the low half of the register that a float is returned in (x86-64 psABI).
//
//===----------------------------------------------------------------------===//

#include "core/NarrowFloat.h"

#include <cmath>

using namespace fsdp::rt;

static float asReturned(float value) {
  BFloat16 result;
  fromFloat(value, result);
  return floatOf(result.bits);
}

// The names are the compilers' own.
// NOLINTBEGIN(bugprone-reserved-identifier)
extern "C" {
float __truncsfbf2(float value);
float __truncdfbf2(double value);
}

float __truncsfbf2(float value) { return asReturned(value); }

float __truncdfbf2(double value) {
  // Rounded to odd on the way, so that the second rounding sees what the first
  // one left out.
  float narrow = static_cast<float>(value);
  double back = narrow;
  if (back != value && value == value) {
    uint32_t bits = bitsOf(narrow);
    // What rounded to a zero is above it.
    if (std::abs(back) > std::abs(value))
      --bits;
    narrow = floatOf(bits | 1);
  }
  return asReturned(narrow);
}
// NOLINTEND(bugprone-reserved-identifier)
