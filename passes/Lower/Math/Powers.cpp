//===- Powers.cpp - cbrt, pow ---------------------------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Lower/Math/Functions.h"

using namespace mlir;
using namespace mlir::fsdp;
using namespace mlir::fsdp::expand;

Float expand::cbrt(Float x) {
  Float size = abs(x);
  // Neither squares of errors nor sums are subnormal or infinite.
  Bool isTiny = size<0x1p-60, isHuge = size> 0x1p60;
  Float a = size * select(isTiny, Float(0x1p72),
                          select(isHuge, Float(0x1p-72), Float(1)));
  // A third of the exponent, up to 4 % off; a step of Halley's, and one of
  // Newton's whose correction alone is rounded.
  Float root = fromBits(divideUnsigned(getBits(a), 3) + Int(0x2a5137a0));
  Float cube = root * root * root;
  root = root * ((cube + a + a) / (cube + cube + a));
  Float square = root * root;
  Float squareLow = fma(root, root, -square);
  Float above = fma(squareLow, root, fma(square, root, -a));
  root = root - above / (square * 3);
  root = root * select(isTiny, Float(0x1p-24),
                       select(isHuge, Float(0x1p24), Float(1)));
  root = select(size < kInfinity, root, size);
  return copySign(select(size == 0, size, root), x);
}

namespace {
struct Sum {
  Float high, low;
};
} // namespace

/// a + b and what it loses; |a| >= |b| or a = 0 (Dekker).
static Sum add(Float a, Float b) {
  Float sum = a + b;
  return {sum, (a - sum) + b};
}

/// log(x) as a sum of two floats, 0 < x < infinity: 2 atanh(q) with
/// q = (m - 1) / (m + 1), and k ln 2.
static Sum getLogSum(Float x) {
  SplitLog split = splitLog(x, 0x1.6a09e6p-1f);
  Float below = split.mantissa - 1;
  Float inverse = Float(1) / (split.mantissa + 1);
  Float q = inverse * below;
  Float qLow = inverse * fma(q, -below, fma(q, -2, below));
  Float square = q * q;
  Float squareLow = fma(q, qLow + qLow, fma(q, q, -square));
  Float cube = square * q;
  Float cubeLow = fma(square, qLow, fma(squareLow, q, fma(square, q, -cube)));
  // 2 q + q^3 (2/3 + ..)
  constexpr double kFirst = 0x1.555554p-1;
  Float others =
      evaluate(square, {0x1.999c46p-2, 0x1.23c96ep-2, 0x1.f2dfb0p-3});
  Float factor = fma(others, square, kFirst);
  Float factorLow = fma(others, square, Float(kFirst) - factor);
  Float curve = cube * factor;
  Float curveLow =
      fma(cube, factorLow, fma(cubeLow, factor, fma(cube, factor, -curve)));
  Sum small = add(q + q, curve);
  small.low = small.low + (curveLow + (qLow + qLow));
  // ln 2 in two parts; the product with the first is exact.
  Sum sum = add(split.integer * 0x1.62e4p-1, small.high);
  return add(sum.high, sum.low + fma(split.integer, 0x1.7f7d1cp-20, small.low));
}

Float expand::pow(Float x, Float y) {
  Float size = abs(x);
  Sum log = getLogSum(size);
  Float product = log.high * y;
  Float productLow = fma(log.low, y, fma(log.high, y, -product));
  // Beyond, where the low part may be infinite, results are 0 or infinite.
  Bool isInRange = abs(product) < 200;
  ReducedExp reduced = reduceExp(clamp(product, -110, 90));
  Float rest = reduced.rest + select(isInRange, productLow, Float(0));
  Float result = scale(evaluateExp(rest), reduced.biased);

  Float half = y * 0.5;
  Bool isInteger = trunc(y) == y;
  Bool isOdd = isInteger & (trunc(half) != half);
  Bool isInfinite = abs(y) == kInfinity;
  // Of 0 and infinities, and to the power of infinities.
  Bool isExtreme = (size == 0) | (size == kInfinity) | isInfinite;
  Bool isGrowing = (size < 1) ^ (y > 0);
  result =
      select(isExtreme, select(isGrowing, Float(kInfinity), Float(0)), result);
  result = select(isNegative(x) & isOdd, -result, result);
  Bool isReal = !(x < 0) | isInteger | (size == kInfinity);
  result = select(isReal, result, Float(kNan));
  result = select(isUnordered(x, y), x + y, result);
  Bool isOne = (x == 1) | (y == 0) | ((size == 1) & isInfinite);
  return select(isOne, Float(1), result);
}
