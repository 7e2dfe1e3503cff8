//===- Trigonometry.cpp - sin, cos, tan -----------------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// x = r + k pi / 2, |r| <= pi / 4. Up to 2^16 by Cody and Waite's reduction
// with pi / 2 as the sum of three floats: the first has 20 bits, so that x less
// its product with k is exact; the other products are rounded with their sums.
// Beyond by Payne and Hanek's: of the product of x with 2 / pi, in integers,
// only those bits are computed that are worth less than 4 quadrants. Vectors
// compute it, for all elements, where one needs it.
//
//===----------------------------------------------------------------------===//

#include "Lower/Math/Functions.h"

#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace mlir::fsdp;
using namespace mlir::fsdp::expand;

namespace {
/// x = rest + tail + quadrant pi / 2; of `quadrant` the last two bits count.
struct ReducedAngle {
  Float rest, tail;
  Int quadrant;
};
} // namespace

/// Up to this, Cody and Waite's reduction holds.
static constexpr double kMostReduced = 0x1p16;

static ReducedAngle reduceSmall(Float x, bool hasTail) {
  Float shift = 0x1.8p23;
  Float sum = fma(x, 0x1.45f306p-1, shift);
  Float k = sum - shift;
  constexpr double kSecond = 0x1.5110b4p-22, kThird = 0x1.846988p-48;
  Float rest = fma(k, -0x1.921fb0p0, x);
  if (!hasTail)
    return {fma(k, -kThird, fma(k, -kSecond, rest)), 0, getBits(sum)};
  // rest - k second as a sum of two floats (Knuth's TwoSum).
  Float product = k * kSecond;
  Float productLow = fma(k, kSecond, -product);
  Float high = rest - product;
  Float subtracted = high - rest;
  Float low = (rest - (high - subtracted)) - (product + subtracted);
  Float tail = fma(k, -kThird, low - productLow);
  rest = high + tail;
  return {rest, (high - rest) + tail, getBits(sum)};
}

/// Of |x| >= 2^16; of other x any numbers.
static ReducedAngle reduceLarge(Float x) {
  // 2 / pi without the 32 bits before its point, which are zeros.
  static constexpr uint32_t kTwoOverPi[] = {0,          0xa2f9836e, 0x4e441529,
                                            0xfc2757d1, 0xf534ddc0, 0xdb629599,
                                            0x3c439041, 0xfe5163ab};
  constexpr int kMostFirst = 4;
  // x = mantissa 2^scaling, and bit i of 2 / pi, the first one after the point
  // being bit 0, is worth 2^-(i + 1): those below scaling - 2 count whole turns
  // of 4 quadrants.
  Int bits = getBits(x);
  Int scaling = (shiftUnsigned(bits, 23) & Int(0xff)) - Int(150);
  Int mantissa = (bits & Int(0x7fffff)) | Int(0x800000);
  Int first = scaling + Int(32 - 2);
  Int word = shiftUnsigned(first, 5), offset = first & Int(31);
  auto getWord = [&](int at) {
    Int found = kTwoOverPi[at];
    for (int i = 1; i <= kMostFirst && at + i < 8; ++i)
      found = select(word == Int(i), Int(kTwoOverPi[at + i]), found);
    return found;
  };
  Int words[] = {getWord(0), getWord(1), getWord(2), getWord(3)};
  // The 96 bits from the first one.
  auto getBitsFrom = [&](int at) {
    return (words[at] << offset) |
           shiftUnsigned(shiftUnsigned(words[at + 1], 1), Int(31) - offset);
  };
  // In units of 2^-62 quadrants, modulo 4.
  Long factor = widen(mantissa);
  Long product = (widen(mantissa * getBitsFrom(0)) << 32) +
                 factor * widen(getBitsFrom(1)) +
                 shiftUnsigned(factor * widen(getBitsFrom(2)), 32);
  Long quadrants = shiftUnsigned(product + Long(int64_t(1) << 61), Long(62));
  Long fraction = product - (quadrants << 62);
  // Times pi / 2 2^-62, as a sum of two floats.
  constexpr double kUnit = 0x1.921fb6p-62, kUnitLow = -0x1.777a5cp-87;
  Float high = toFloat(fraction);
  Float low = toFloat(fraction - toLong(high));
  Float angle = high * kUnit;
  Float tail = fma(high, kUnit, -angle);
  tail = fma(low, kUnit, fma(high, kUnitLow, tail));
  // Of infinities NaN.
  Float rest = (angle + tail) + (x - x);
  tail = (angle - rest) + tail;
  Bool isBelow = isNegative(x);
  Int quadrant = narrow(quadrants);
  return {select(isBelow, -rest, rest), select(isBelow, -tail, tail),
          select(isBelow, -quadrant, quadrant)};
}

/// Whether any element is true.
static Value isAny(Emitter &emitter, Value condition) {
  auto type = dyn_cast<VectorType>(condition.getType());
  if (!type)
    return condition;
  Type flat = VectorType::get(type.getNumElements(), type.getElementType());
  if (flat != type)
    condition = emitter.create<vector::ShapeCastOp>(flat, condition);
  return emitter.create<vector::ReductionOp>(vector::CombiningKind::OR,
                                             condition);
}

static ReducedAngle reduceAngle(Float x, bool hasTail) {
  ReducedAngle small = reduceSmall(x, hasTail);
  Emitter &emitter = *x.getEmitter();
  Bool isLarge = abs(x) > kMostReduced;
  SmallVector<Value> kept = {small.rest.get(emitter),
                             small.quadrant.get(emitter)};
  if (hasTail)
    kept.push_back(small.tail.get(emitter));
  auto branch = emitter.create<scf::IfOp>(ValueRange(kept).getTypes(),
                                          isAny(emitter, isLarge.get(emitter)),
                                          /*addThenBlock=*/true,
                                          /*addElseBlock=*/true);
  OpBuilder::InsertionGuard guard(emitter.builder);
  emitter.builder.setInsertionPointToStart(branch.elseBlock());
  emitter.create<scf::YieldOp>(kept);
  emitter.builder.setInsertionPointToStart(branch.thenBlock());
  ReducedAngle large = reduceLarge(x);
  SmallVector<Value> chosen = {
      select(isLarge, large.rest, small.rest).get(emitter),
      select(isLarge, large.quadrant, small.quadrant).get(emitter)};
  if (hasTail)
    chosen.push_back(select(isLarge, large.tail, small.tail).get(emitter));
  emitter.create<scf::YieldOp>(chosen);
  Float rest(&emitter, branch.getResult(0));
  Int quadrant(&emitter, branch.getResult(1));
  Float tail = hasTail ? Float(&emitter, branch.getResult(2)) : Float(0);
  return {rest, tail, quadrant};
}

/// sin(rest + quadrant pi / 2).
static Float getSine(Float rest, Int quadrant) {
  Float square = rest * rest;
  // The cube of zeros is +0: its product with the polynomial leaves them their
  // signs.
  Float sine = fma(evaluate(square, {-0x1.555556p-3, 0x1.111170p-7,
                                     -0x1.a05434p-13, 0x1.7ab5a6p-19}),
                   fma(rest, square, 0), rest);
  Float cosine = evaluate(
      square, {1, -0.5, 0x1.55554ap-5, -0x1.6c0c28p-10, 0x1.99e7e8p-16});
  Float result = select((quadrant & Int(1)) == Int(0), sine, cosine);
  return fromBits(getBits(result) ^ ((quadrant & Int(2)) << Int(30)));
}

Float expand::sin(Float x) {
  ReducedAngle angle = reduceAngle(x, /*hasTail=*/false);
  return getSine(angle.rest, angle.quadrant);
}

Float expand::cos(Float x) {
  ReducedAngle angle = reduceAngle(x, /*hasTail=*/false);
  return getSine(angle.rest, angle.quadrant + Int(1));
}

Float expand::tan(Float x) {
  ReducedAngle angle = reduceAngle(x, /*hasTail=*/true);
  Float r = angle.rest, square = r * r;
  Float curve = r * square *
                evaluate(square, {0x1.555560p-2, 0x1.110d94p-3, 0x1.badc9cp-5,
                                  0x1.5c9b40p-6, 0x1.63af2cp-7, 0x1.f482fcp-15,
                                  0x1.1fedeep-8});
  // tan(r + tail) = high + low, and -1 / (high + low) by one step of Newton's.
  Float high = r + curve;
  Float low = ((r - high) + curve) + fma(angle.tail, high * high, angle.tail);
  Float inverse = Float(-1) / high;
  Float missing = fma(inverse, low, fma(inverse, high, 1));
  Float result = select((angle.quadrant & Int(1)) == Int(0), high + low,
                        fma(inverse, missing, inverse));
  return select(x == 0, x, result);
}
