//===- InverseTrigonometry.cpp - asin, acos, atan, atan2 ------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Lower/Math/Functions.h"

using namespace mlir;
using namespace mlir::fsdp;
using namespace mlir::fsdp::expand;

/// pi / 2 and pi, each less its float.
static constexpr double kHalfPi = 0x1.921fb6p0, kHalfPiLow = -0x1.777a5cp-25,
                        kPi = 0x1.921fb6p1, kPiLow = -0x1.777a5cp-24;

/// atan(t), 0 <= t <= 1.
static Float evaluateAtan(Float t) {
  Float square = t * t;
  return fma(evaluate(square, {-0x1.55553ep-2, 0x1.9991ecp-3, -0x1.242118p-3,
                               0x1.c0943cp-4, -0x1.58251ep-4, 0x1.da9886p-5,
                               -0x1.fe7476p-6, 0x1.654748p-7, -0x1.d58cbap-10}),
             t * square, t);
}

Float expand::atan(Float x) {
  Float size = abs(x);
  Bool isSteep = size > 1;
  Float angle = evaluateAtan(select(isSteep, Float(1) / size, size));
  return copySign(select(isSteep, (Float(kHalfPi) - angle) + kHalfPiLow, angle),
                  x);
}

Float expand::atan2(Float y, Float x) {
  Float height = abs(y), width = abs(x);
  Bool isSteep = height > width;
  Float most = select(isSteep, height, width),
        least = select(isSteep, width, height);
  // Two infinities, two zeros.
  Float ratio = select(height == width, Float(1), least / most);
  ratio = select(most == 0, Float(0), ratio);
  Float angle = evaluateAtan(ratio);
  angle = select(isSteep, (Float(kHalfPi) - angle) + kHalfPiLow, angle);
  angle = select(isNegative(x), (Float(kPi) - angle) + kPiLow, angle);
  angle = select(isUnordered(height, width), height + width, angle);
  return copySign(angle, y);
}

/// asin(t), 0 <= t <= 0.5625.
static Float evaluateAsin(Float t, Float square) {
  return fma(evaluate(square, {0x1.555522p-3, 0x1.334acap-4, 0x1.6a2622p-5,
                               0x1.180482p-5, 0x1.96bb48p-8, 0x1.8a13c2p-5}),
             t * square, t);
}

namespace {
/// asin(|x|) = angle, or pi / 2 - 2 angle where |x| is near 1.
struct ReducedAsin {
  Bool isNearOne;
  Float angle;
};
} // namespace

static ReducedAsin reduceAsin(Float x) {
  Float size = abs(x);
  Bool isNearOne = size > 0.5625;
  Float square = select(isNearOne, fma(size, -0.5, 0.5), size * size);
  Float root = select(isNearOne, sqrt(square), size);
  return {isNearOne, evaluateAsin(root, square)};
}

Float expand::asin(Float x) {
  ReducedAsin reduced = reduceAsin(x);
  Float rest = fma(reduced.angle, -2, kHalfPiLow) + kHalfPi;
  return copySign(select(reduced.isNearOne, rest, reduced.angle), x);
}

Float expand::acos(Float x) {
  ReducedAsin reduced = reduceAsin(x);
  Float twice = reduced.angle + reduced.angle;
  Float nearOne = select(x < 0, (Float(kPi) - twice) + kPiLow, twice);
  Float other = (Float(kHalfPi) - copySign(reduced.angle, x)) + kHalfPiLow;
  return select(reduced.isNearOne, nearOne, other);
}
