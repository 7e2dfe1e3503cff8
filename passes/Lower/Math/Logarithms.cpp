//===- Logarithms.cpp - log and its relatives -----------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// log(x) = k ln 2 + log(1 + f), where x = 2^k (1 + f) and 1 + f is near one.
//
//===----------------------------------------------------------------------===//

#include "Lower/Math/Functions.h"

using namespace mlir;
using namespace mlir::fsdp;
using namespace mlir::fsdp::expand;

static constexpr double kLn2 = 0x1.62e430p-1;

SplitLog expand::splitLog(Float x, float least) {
  Bool isTiny = x < 0x1p-126;
  Int bits = getBits(select(isTiny, x * 0x1p23, x));
  Int exponent =
      (bits - Int(llvm::bit_cast<int32_t>(least))) & Int(~int64_t(0x7fffff));
  Float integer =
      fma(toFloat(exponent), 0x1p-23, select(isTiny, Float(-23), Float(0)));
  return {fromBits(bits - exponent), integer};
}

/// `result` where x is finite and above 0, else what a logarithm is there.
static Float selectSpecial(Float x, Float result) {
  result = select(x < kInfinity, result, x);
  result = select(x < 0, Float(kNan), result);
  return select(x == 0, Float(-kInfinity), result);
}

Float expand::log(Float x) {
  SplitLog split = splitLog(x, 0x1.555556p-1f);
  Float f = split.mantissa - 1;
  Float curve = evaluate(f, {0x1.555556p-2, -0x1.ffff0ep-3, 0x1.999810p-3,
                             -0x1.559936p-3, 0x1.24e65ep-3, -0x1.f38364p-4,
                             0x1.b99948p-4, -0x1.072304p-3, 0x1.e7f778p-4});
  Float small = fma(fma(f, curve, -0.5), f * f, f);
  return selectSpecial(x, fma(split.integer, kLn2, small));
}

namespace {
/// Of a logarithm in another base: log(2) and 1 / ln of the base, each as a
/// sum of two floats, and (log(1 + f) - f slope) / f^2.
struct Base {
  double step, stepLow;
  double slope, slopeLow;
  ArrayRef<double> curve;
};
} // namespace

/// The leading terms k step + f slope are added up with what they lose.
static Float getLog(Float x, const Base &base) {
  SplitLog split = splitLog(x, 0x1.6a09e6p-1f);
  Float f = split.mantissa - 1;
  Float term = f * base.slope;
  Float rest = fma(f, base.slopeLow, fma(f, base.slope, -term));
  rest = fma(f * f, evaluate(f, base.curve), rest);
  if (base.stepLow != 0)
    rest = fma(split.integer, base.stepLow, rest);
  // Exact, and 0 or more than the other term.
  Float steps = split.integer * base.step;
  Float sum = steps + term;
  return selectSpecial(x, sum + (rest + ((steps - sum) + term)));
}

Float expand::log2(Float x) {
  return getLog(x, {1,
                    0,
                    0x1.715476p0,
                    0x1.4ae0cp-26,
                    {-0x1.715470p-1, 0x1.ec7094p-2, -0x1.715ad0p-2,
                     0x1.277f00p-2, -0x1.eaaf94p-3, 0x1.a2e336p-3,
                     -0x1.8789d0p-3, 0x1.7e29f2p-3, -0x1.c35afcp-4}});
}

Float expand::log10(Float x) {
  return getLog(x, {0x1.344p-2,
                    0x1.3509f8p-18,
                    0x1.bcb7b2p-2,
                    -0x1.5b235ep-27,
                    {-0x1.bcb7aap-3, 0x1.287a72p-3, -0x1.bcbf32p-4,
                     0x1.63cf42p-4, -0x1.276e4ap-4, 0x1.f8823cp-5,
                     -0x1.d7743cp-5, 0x1.cb7c4ep-5, -0x1.0eeec4p-5}});
}

/// log(1 + x) + doublings ln 2. With 2^k next to 1 + x,
/// 1 + x = 2^k (1 + (x 2^-k + (2^-k - 1))), in which no bit of x is lost.
static Float getLog1p(Float x, Float doublings) {
  Int exponent = (getBits(x + 1) - Int(llvm::bit_cast<int32_t>(0.75f))) &
                 Int(~int64_t(0x7fffff));
  Float fourth = fromBits(Int(llvm::bit_cast<int32_t>(4.0f)) - exponent);
  Float f = fromBits(getBits(x) - exponent) + fma(0.25, fourth, -1);
  Float curve =
      evaluate(f, {-0x1.fffffep-2, 0x1.555550p-2, -0x1.0000e4p-2, 0x1.999c62p-3,
                   -0x1.550ca0p-3, 0x1.23fc14p-3, -0x1.048058p-3, 0x1.e426b6p-4,
                   -0x1.7fb018p-4, 0x1.412300p-5});
  Float integer = fma(toFloat(exponent), 0x1p-23, doublings);
  Float result = fma(integer, kLn2, fma(curve, f * f, f));
  result = select(x < kInfinity, result, x);
  result = select(x < -1, Float(kNan), result);
  result = select(x == -1, Float(-kInfinity), result);
  return select(x == 0, x, result);
}

Float expand::log1p(Float x) { return getLog1p(x, 0); }

/// Above, sqrt(x^2 + 1) = |x|.
static constexpr double kLarge = 0x1p20;

Float expand::asinh(Float x) {
  Float size = abs(x), square = size * size;
  Bool isLarge = size > kLarge;
  Float rest = size + square / (sqrt(square + 1) + 1);
  return copySign(getLog1p(select(isLarge, size, rest),
                           select(isLarge, Float(1), Float(0))),
                  x);
}

Float expand::acosh(Float x) {
  Float above = x - 1, root = sqrt(above + above);
  Float small =
      fma(root * above,
          evaluate(above, {-0x1.55554ep-4, 0x1.332eaep-6, -0x1.6ccb64p-8,
                           0x1.dc6ba0p-10, -0x1.f16ad8p-12}),
          root);
  Bool isLarge = x > kLarge;
  Float rest = above + sqrt(fma(above, above, above + above));
  Float large =
      getLog1p(select(isLarge, x, rest), select(isLarge, Float(1), Float(0)));
  // Below 1, NaN as the root is.
  return select(x < 1.35, small, large);
}

Float expand::atanh(Float x) {
  Float size = abs(x), square = size * size;
  Float small = fma(square * size,
                    evaluate(square, {0x1.555532p-2, 0x1.99b6e0p-3,
                                      0x1.20d718p-3, 0x1.127d14p-3}),
                    size);
  Float large = log1p((size + size) / (Float(1) - size)) * 0.5;
  return copySign(select(size < 0.3, small, large), x);
}
