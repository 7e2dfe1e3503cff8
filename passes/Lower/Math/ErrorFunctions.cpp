//===- ErrorFunctions.cpp - erf, erfc -------------------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Lower/Math/Functions.h"

#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace mlir::fsdp;
using namespace mlir::fsdp::expand;

Float expand::evaluateErfNearZero(Float x) {
  return fma(evaluate(x * x, {0x1.06eba6p-3, -0x1.8126e4p-2, 0x1.ce19dep-4,
                              -0x1.b680e8p-6, 0x1.46f5c8p-8, -0x1.38e2aep-11}),
             x, x);
}

Float expand::evaluateErfcLogarithm(Float size) {
  return evaluate(clampBelow(size, 4),
                  {-0x1.aaa888p-13, -0x1.20ad40p0, -0x1.4643d2p-1,
                   -0x1.a98278p-4, 0x1.6bca3ap-6, -0x1.8e1ef8p-9,
                   0x1.99a8aap-13});
}

/// Away from 0 as 1 - exp(log(erfc(|x|))).
Float expand::erf(Float x) {
  Float size = abs(x);
  ReducedExp reduced = reduceExp(evaluateErfcLogarithm(size));
  Float large = fma(-evaluateExp(reduced.rest), makePower(reduced.biased), 1);
  return select(size < kErfNearZero, evaluateErfNearZero(x),
                copySign(large, x));
}

namespace {
/// Of a type: where erfc is no number above 0 any more, and
/// exp(t^2) erfc(t) (1 + 2 t) of 0.5 <= t <= most as a polynomial in
/// (t - middle) / (t + middle) (Shepherd and Laframboise 1981).
struct ErfcTerms {
  double most, middle, constant;
  ArrayRef<double> others;
};
} // namespace

static ErfcTerms getErfcTerms(bool isDouble) {
  static constexpr double kSingle[] = {
      -0x1.7bf5e6p-4, -0x1.5407c6p-3,  0x1.4ff936p-3,
      -0x1.bc202ap-5, -0x1.067e4ap-7,  0x1.1c1972p-7,
      0x1.2f97dep-10, -0x1.4ee80cp-10, -0x1.eb5126p-13};
  static constexpr double kDouble[] = {
      -0x1.15c084bb9e8efp-3,  -0x1.85a15c58a9c63p-5,  0x1.098366a5b445ep-3,
      -0x1.e88b803a5bd0dp-4,  0x1.17ca2877fea82p-4,   -0x1.8574c404a20a9p-6,
      0x1.4b884e1fea012p-9,   0x1.ef1bd7a361c1cp-10,  -0x1.98db4a63ec853p-11,
      -0x1.b90fe39da363ap-14, 0x1.065978c9e5046p-13,  0x1.4b6d031d7ec50p-18,
      -0x1.5120d75cdc9fap-16, -0x1.782485bfc426ep-21, 0x1.cfb78018c2537p-19,
      0x1.44084bc4413dbp-22,  -0x1.3acce90f68b47p-21, -0x1.63d39b07d1ce5p-24,
      0x1.35df9b3c9a4c7p-24,  0x1.1329023496c91p-27};
  if (isDouble)
    return {27.3, 3, 0x1.40c522d7e4987p0, kDouble};
  return {10.1, 2, 0x1.46e80ep0, kSingle};
}

/// erfc(t) = exp(-t^2) q, where q and t^2 are sums of two floats each.
Float expand::erfc(Float x) {
  Emitter &emitter = *x.getEmitter();
  ErfcTerms terms = getErfcTerms(x.isDouble());
  Float size = abs(x), t = clampBelow(size, terms.most);
  Float place = (t - terms.middle) / (t + terms.middle);
  Float other = place * evaluate(place, terms.others);
  Float numerator = other + terms.constant;
  Float numeratorLow = (Float(terms.constant) - numerator) + other;
  Float denominator = fma(t, 2, 1);
  Float denominatorLow = fma(t, 2, Float(1) - denominator);
  Float quotient = numerator / denominator;
  Float quotientLow = (fma(-quotient, denominator, numerator) +
                       fma(-quotient, denominatorLow, numeratorLow)) /
                      denominator;
  Float square = t * t;
  ReducedExp reduced = reduceExp(-square);
  Float rest = reduced.rest - fma(t, t, -square);
  Float above = rest * evaluateExpSlope(rest);
  Float sum =
      quotient + fma(quotient, above, fma(quotientLow, above, quotientLow));
  Float result = scale(sum, reduced.biased);
  result = select(x < 0, Float(2) - result, result);
  Float small =
      x.isDouble()
          ? Float(&emitter, emitter.create<math::ErfOp>(x.get(emitter)))
          : evaluateErfNearZero(x);
  return select(size < 0.5, Float(1) - small, result);
}
