//===- Numbers.cpp - Arithmetic that functions expand to ------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Lower/Math/Numbers.h"

#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace mlir::fsdp;
using namespace mlir::fsdp::expand;

/// `element`, or a vector of it shaped as `like`.
static Type getTypeLike(Type like, Type element) {
  auto vector = dyn_cast<VectorType>(like);
  return vector ? vector.clone(element) : element;
}

static Value createConstant(ImplicitLocOpBuilder &builder, Type type,
                            TypedAttr element) {
  TypedAttr attr = element;
  if (auto vector = dyn_cast<VectorType>(type))
    attr = DenseElementsAttr::get(vector, Attribute(element));
  return arith::ConstantOp::create(builder, attr);
}

Type Emitter::getIntType(unsigned width) const {
  return getTypeLike(floatType,
                     IntegerType::get(floatType.getContext(), width));
}

Value Emitter::createFloat(double constant) {
  auto element = cast<FloatType>(getElementTypeOrSelf(floatType));
  return createConstant(builder, floatType, FloatAttr::get(element, constant));
}

Value Emitter::createInt(unsigned width, int64_t constant) {
  llvm::APInt bits(width, uint64_t(constant), /*isSigned=*/true,
                   /*implicitTrunc=*/true);
  return createConstant(
      builder, getIntType(width),
      builder.getIntegerAttr(builder.getIntegerType(width), bits));
}

Float expand::operator-(Float a) {
  Emitter *emitter = a.getEmitter();
  return {emitter, emitter->create<arith::NegFOp>(a.get(*emitter))};
}

Bool expand::operator!(Bool a) {
  Emitter *emitter = a.getEmitter();
  Bool all(emitter, emitter->createInt(1, 1));
  return a ^ all;
}

Bool expand::compare(arith::CmpFPredicate predicate, Float a, Float b) {
  Emitter *emitter = a.getEmitter() ? a.getEmitter() : b.getEmitter();
  Value left = a.get(*emitter), right = b.get(*emitter);
  return {emitter, emitter->create<arith::CmpFOp>(predicate, left, right)};
}

Bool expand::operator==(Int a, Int b) {
  Emitter *emitter = a.getEmitter() ? a.getEmitter() : b.getEmitter();
  Value left = a.get(*emitter), right = b.get(*emitter);
  return {emitter, emitter->create<arith::CmpIOp>(arith::CmpIPredicate::eq,
                                                  left, right)};
}

Bool expand::isNegative(Float a) {
  Emitter *emitter = a.getEmitter();
  Value bits = getBits(a).get(*emitter), zero = Int(0).get(*emitter);
  return {emitter, emitter->create<arith::CmpIOp>(arith::CmpIPredicate::slt,
                                                  bits, zero)};
}

template <typename T>
static T createSelect(Bool condition, T a, T b) {
  Emitter *emitter = condition.getEmitter();
  Value left = a.get(*emitter), right = b.get(*emitter);
  return {emitter, emitter->create<arith::SelectOp>(condition.get(*emitter),
                                                    left, right)};
}

Float expand::select(Bool condition, Float a, Float b) {
  return createSelect(condition, a, b);
}

Int expand::select(Bool condition, Int a, Int b) {
  return createSelect(condition, a, b);
}

Float expand::fma(Float a, Float b, Float c) {
  Emitter *emitter = a.getEmitter();
  emitter = emitter ? emitter : b.getEmitter();
  Value left = a.get(*emitter), right = b.get(*emitter),
        added = c.get(*emitter);
  return {emitter, emitter->create<math::FmaOp>(left, right, added)};
}

template <typename Op>
static Float createUnary(Float a) {
  Emitter *emitter = a.getEmitter();
  return {emitter, emitter->create<Op>(a.get(*emitter))};
}

Float expand::abs(Float a) { return createUnary<math::AbsFOp>(a); }
Float expand::sqrt(Float a) { return createUnary<math::SqrtOp>(a); }
Float expand::trunc(Float a) { return createUnary<math::TruncOp>(a); }

Float expand::copySign(Float magnitude, Float sign) {
  return combine<math::CopySignOp>(magnitude, sign);
}

Float expand::clampBelow(Float a, double high) {
  return select(a > high, Float(high), a);
}

Float expand::clamp(Float a, double low, double high) {
  a = clampBelow(a, high);
  return select(a < low, Float(low), a);
}

template <typename Op>
static Value createCast(Emitter *emitter, Type type, Value value) {
  if (value.getType() == type)
    return value;
  return emitter->create<Op>(type, value);
}

Int expand::getBits(Float a) {
  Emitter *emitter = a.getEmitter();
  Type type = emitter->getIntType(emitter->getWidth());
  return {emitter, emitter->create<arith::BitcastOp>(type, a.get(*emitter))};
}

Float expand::fromBits(Int a) {
  Emitter *emitter = a.getEmitter();
  return {emitter, emitter->create<arith::BitcastOp>(emitter->getFloatType(),
                                                     a.get(*emitter))};
}

Float expand::toFloat(Int a) {
  Emitter *emitter = a.getEmitter();
  return {emitter, emitter->create<arith::SIToFPOp>(emitter->getFloatType(),
                                                    a.get(*emitter))};
}

Float expand::toFloat(Long a) {
  Emitter *emitter = a.getEmitter();
  return {emitter, emitter->create<arith::SIToFPOp>(emitter->getFloatType(),
                                                    a.get(*emitter))};
}

Long expand::toLong(Float a) {
  Emitter *emitter = a.getEmitter();
  return {emitter, emitter->create<arith::FPToSIOp>(emitter->getIntType(64),
                                                    a.get(*emitter))};
}

Long expand::widen(Int a) {
  Emitter *emitter = a.getEmitter();
  return {emitter, createCast<arith::ExtUIOp>(emitter, emitter->getIntType(64),
                                              a.get(*emitter))};
}

Int expand::narrow(Long a) {
  Emitter *emitter = a.getEmitter();
  return {emitter, createCast<arith::TruncIOp>(
                       emitter, emitter->getIntType(emitter->getWidth()),
                       a.get(*emitter))};
}

Float expand::evaluate(Float x, ArrayRef<double> coefficients) {
  Float sum = coefficients.back();
  for (double coefficient : llvm::reverse(coefficients.drop_back()))
    sum = fma(x, sum, coefficient);
  return sum;
}
