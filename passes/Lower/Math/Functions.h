//===- Functions.h - Functions of math as arithmetic ------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Each function takes and returns f32, where no other types are named, and is
// at most 2 units in the last place off for every f32, subnormal ones too;
// infinities, NaN and zeros with their signs give what C's annex F says.
// Polynomials are near minimax for the relative error: fitted in 50 digits by
// weighted least squares, coefficients rounded one by one, each before the next
// ones are fitted. Where an error would exceed the bound, a second float holds
// what the first one has lost.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_PASSES_LOWER_MATH_FUNCTIONS_H
#define FSDP_PASSES_LOWER_MATH_FUNCTIONS_H

#include "Lower/Math/Numbers.h"

namespace mlir::fsdp::expand {

Float exp(Float x);
Float exp2(Float x);
/// f32 or f64.
Float expm1(Float x);
Float sinh(Float x);
Float cosh(Float x);
Float tanh(Float x);

Float log(Float x);
Float log2(Float x);
Float log10(Float x);
Float log1p(Float x);
Float asinh(Float x);
Float acosh(Float x);
Float atanh(Float x);

Float sin(Float x);
Float cos(Float x);
Float tan(Float x);

Float asin(Float x);
Float acos(Float x);
Float atan(Float x);
Float atan2(Float y, Float x);

Float erf(Float x);
/// f32 or f64.
Float erfc(Float x);

Float cbrt(Float x);
Float pow(Float x, Float y);

/// With a device's approximate instructions: in f32 as far off as these, and
/// what that makes of results of 16 bits says docs/numbers.md.
namespace approximate {
Float exp(Float x);
Float tanh(Float x);
Float erf(Float x);
} // namespace approximate

//===----------------------------------------------------------------------===//
// Parts of exponentials
//===----------------------------------------------------------------------===//

/// x = integer ln 2 + rest, |rest| <= 0.35.
struct ReducedExp {
  Float integer;
  /// The integer plus twice the bias of an exponent's field, and bits above
  /// that two fields hold.
  Int biased;
  Float rest;
};

/// Of |x| < 2^10.
ReducedExp reduceExp(Float x);

/// exp of such a rest.
Float evaluateExp(Float rest);

/// (exp(rest) - 1) / rest.
Float evaluateExpSlope(Float rest);

/// 2^integer, a normal number.
Float makePower(Int biased);

/// x 2^integer, rounded once: in two steps, of which only the second may give
/// a subnormal.
Float scale(Float x, Int biased);

/// tanh of 0 <= size < 0.4.
Float evaluateTanhNearZero(Float size);

/// erf of |x| < kErfNearZero, and log(erfc(size)) beyond, as if erfc were the
/// same from 4 on, where erf is 1.
constexpr double kErfNearZero = 0.9275;
Float evaluateErfNearZero(Float x);
Float evaluateErfcLogarithm(Float size);

//===----------------------------------------------------------------------===//
// Parts of logarithms
//===----------------------------------------------------------------------===//

/// x = mantissa 2^integer.
struct SplitLog {
  Float mantissa, integer;
};

/// With the mantissa in [least, 2 least); x > 0 and finite.
SplitLog splitLog(Float x, float least);

} // namespace mlir::fsdp::expand

#endif // FSDP_PASSES_LOWER_MATH_FUNCTIONS_H
