//===- Exponentials.cpp - exp and its relatives ---------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// exp(x) = 2^k exp(r) with k the integer next to x / ln 2 and r = x - k ln 2 by
// Cody and Waite's reduction: ln 2 is the sum of a float of few bits, whose
// product with k is exact, and of the rest.
//
//===----------------------------------------------------------------------===//

#include "Lower/Math/Functions.h"

using namespace mlir;
using namespace mlir::fsdp;
using namespace mlir::fsdp::expand;

namespace {
struct RoundedNumber {
  Float number;
  Int biased;
};
} // namespace

static int getFieldPlace(Float x) { return x.isDouble() ? 52 : 23; }
static int getBias(Float x) { return x.isDouble() ? 1023 : 127; }

/// The integer next to x: a sum whose last bit counts ones, which begin at
/// twice the bias.
static RoundedNumber roundToInteger(Float x) {
  Float shift = (x.isDouble() ? 0x1.8p52 : 0x1.8p23) + 2 * getBias(x);
  Float sum = x + shift;
  return {sum - shift, getBits(sum)};
}

ReducedExp expand::reduceExp(Float x) {
  RoundedNumber k = roundToInteger(x * 0x1.71547652b82fep0);
  bool isDouble = x.isDouble();
  Float rest = fma(k.number, isDouble ? -0x1.62e42fefap-1 : -0x1.62e4p-1, x);
  rest =
      fma(k.number, isDouble ? -0x1.cf79abc9e3b3ap-40 : -0x1.7f7d1cp-20, rest);
  return {k.number, k.biased, rest};
}

/// The shift drops what stands above a field.
static Float makeFloat(Float like, Int field) {
  return fromBits(field << Int(getFieldPlace(like)));
}

Float expand::makePower(Int biased) {
  Float like(biased.getEmitter(), Value());
  return makeFloat(like, biased - Int(getBias(like)));
}

Float expand::scale(Float x, Int biased) {
  Int half = shiftUnsigned(biased, 1);
  return x * makeFloat(x, half) * makeFloat(x, biased - half);
}

Float expand::evaluateExp(Float rest) {
  return evaluate(rest, {1, 1, 0x1.fffffcp-2, 0x1.55548ap-3, 0x1.5558a6p-5,
                         0x1.123f5ep-7, 0x1.6a629cp-10});
}

/// (exp(rest) - 1 - rest) / rest^2
static Float evaluateExpCurve(Float rest) {
  if (rest.isDouble())
    return evaluate(rest, {0x1.0000000000000p-1, 0x1.5555555555555p-3,
                           0x1.5555555555556p-5, 0x1.1111111111332p-7,
                           0x1.6c16c16c161f1p-10, 0x1.a01a019ef6aacp-13,
                           0x1.a01a01a6cba53p-16, 0x1.71de3ea923ee1p-19,
                           0x1.27e4dc4934fc9p-22, 0x1.ae552ea6d6c85p-26,
                           0x1.1f7071c0ed489p-29, 0x1.7552a61272ff5p-33});
  return evaluate(rest, {0x1.000000p-1, 0x1.555554p-3, 0x1.5554ecp-5,
                         0x1.111304p-7, 0x1.6d4952p-10, 0x1.9e1908p-13});
}

Float expand::evaluateExpSlope(Float rest) {
  return fma(rest, evaluateExpCurve(rest), 1);
}

// Beyond the bounds of clamp() results are 0 and infinite, as they are at them.

Float expand::exp(Float x) {
  ReducedExp reduced = reduceExp(clamp(x, -104, 89));
  return scale(evaluateExp(reduced.rest), reduced.biased);
}

Float expand::exp2(Float x) {
  x = clamp(x, -151, 128);
  RoundedNumber k = roundToInteger(x);
  Float power =
      evaluate(x - k.number, {1, 0x1.62e430p-1, 0x1.ebfbdcp-3, 0x1.c6af74p-5,
                              0x1.3b2db8p-7, 0x1.5f0cbap-10, 0x1.419764p-13});
  return scale(power, k.biased);
}

Float expand::expm1(Float x) {
  bool isDouble = x.isDouble();
  ReducedExp reduced =
      reduceExp(clamp(x, isDouble ? -50 : -20, isDouble ? 710 : 89));
  Float rest = reduced.rest;
  Float small = fma(rest * rest, evaluateExpCurve(rest), rest);
  // (2^k (1 + small) - 1) / 2, so that 2^k does not overflow; what 2^k - 1
  // loses is in `low`.
  Float power = makePower(reduced.biased - Int(1));
  Float high = power - 0.5;
  Float low = (power - high) - 0.5;
  Float half = fma(power, small, low) + high;
  Float result = select(reduced.integer == 0, small, half + half);
  return select(x == 0, x, result);
}

/// exp(x) / 2, finite wherever cosh is; x >= 0.
static Float getHalfExp(Float x) {
  ReducedExp reduced = reduceExp(clampBelow(x, 90));
  return scale(evaluateExp(reduced.rest), reduced.biased - Int(1));
}

Float expand::cosh(Float x) {
  Float half = getHalfExp(abs(x));
  return half + 0.25 / half;
}

Float expand::sinh(Float x) {
  Float size = abs(x), square = x * x, half = getHalfExp(size);
  Float small = fma(square * size,
                    evaluate(square, {0x1.555556p-3, 0x1.1110e8p-7,
                                      0x1.a01d62p-13, 0x1.764686p-19}),
                    size);
  return copySign(select(size < 1, small, half - 0.25 / half), x);
}

Float expand::evaluateTanhNearZero(Float size) {
  Float square = size * size;
  return fma(square * size,
             evaluate(square, {-0x1.555534p-2, 0x1.11027cp-3, -0x1.b61fd4p-5,
                               0x1.2e7072p-6}),
             size);
}

Float expand::tanh(Float x) {
  Float size = abs(x), odd = evaluateTanhNearZero(size);
  // expm1(2 |x|), which from 2^26 on is no more to be told from infinity.
  ReducedExp reduced = reduceExp(clampBelow(size + size, 20));
  Float rest = reduced.rest, power = makePower(reduced.biased);
  Float small = fma(rest * rest, evaluateExpCurve(rest), rest);
  Float above = fma(power, small, power - 1);
  return copySign(select(size < 0.4, odd, above / (above + 2)), x);
}
