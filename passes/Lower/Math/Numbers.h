//===- Numbers.h - Arithmetic that functions expand to ----------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Values of MLIR that C++ expressions add up, multiply and compare. An
// expression becomes ops of arith and math without fast-math flags, one for
// one: nothing is reassociated, and products and sums are contracted only where
// fma() says so. All of an expression are single numbers, or all are vectors of
// one shape, whose elements are computed alike: a vector and its remainder give
// the same bits.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_PASSES_LOWER_MATH_NUMBERS_H
#define FSDP_PASSES_LOWER_MATH_NUMBERS_H

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "mlir/IR/TypeUtilities.h"

#include <limits>

namespace mlir::fsdp::expand {

constexpr double kInfinity = std::numeric_limits<double>::infinity(),
                 kNan = std::numeric_limits<double>::quiet_NaN();

/// Where ops are created, and the types of the numbers: f32 or f64, or vectors.
class Emitter {
public:
  Emitter(OpBuilder &builder, Location loc, Type floatType)
      : builder(loc, builder), floatType(floatType) {}

  Type getFloatType() const { return floatType; }
  unsigned getWidth() const {
    return getElementTypeOrSelf(floatType).getIntOrFloatBitWidth();
  }
  /// i32, i64, or vectors, as floatType is.
  Type getIntType(unsigned width) const;
  Value createFloat(double constant);
  Value createInt(unsigned width, int64_t constant);
  template <typename Op, typename... Args>
  Op create(Args &&...args) {
    return Op::create(builder, std::forward<Args>(args)...);
  }

  ImplicitLocOpBuilder builder;

private:
  Type floatType;
};

/// A value, or a constant that takes the type of the values it meets.
template <typename Constant>
class Number {
public:
  Number(Constant constant) : constant(constant) {}
  Number(Emitter *emitter, Value value) : emitter(emitter), value(value) {}

  /// Null for a constant.
  Emitter *getEmitter() const { return emitter; }

protected:
  Emitter *emitter = nullptr;
  Value value;
  Constant constant = 0;
};

class Float : public Number<double> {
public:
  using Number::Number;
  Value get(Emitter &with) const {
    return value ? value : with.createFloat(constant);
  }
  bool isDouble() const { return emitter->getWidth() == 64; }
};

/// An integer as wide as the floats.
class Int : public Number<int64_t> {
public:
  using Number::Number;
  Value get(Emitter &with) const {
    return value ? value : with.createInt(with.getWidth(), constant);
  }
};

/// An integer of 64 bits.
class Long : public Number<int64_t> {
public:
  using Number::Number;
  Value get(Emitter &with) const {
    return value ? value : with.createInt(64, constant);
  }
};

class Bool {
public:
  Bool(Emitter *emitter, Value value) : emitter(emitter), value(value) {}
  Emitter *getEmitter() const { return emitter; }
  Value get(Emitter &) const { return value; }

private:
  Emitter *emitter;
  Value value;
};

/// Op on two numbers of which one at least is no constant.
template <typename Op, typename T>
T combine(const T &a, const T &b) {
  Emitter *emitter = a.getEmitter() ? a.getEmitter() : b.getEmitter();
  Value left = a.get(*emitter), right = b.get(*emitter);
  return {emitter, emitter->create<Op>(left, right)};
}

inline Float operator+(Float a, Float b) {
  return combine<arith::AddFOp>(a, b);
}
inline Float operator-(Float a, Float b) {
  return combine<arith::SubFOp>(a, b);
}
inline Float operator*(Float a, Float b) {
  return combine<arith::MulFOp>(a, b);
}
inline Float operator/(Float a, Float b) {
  return combine<arith::DivFOp>(a, b);
}
Float operator-(Float a);

inline Int operator+(Int a, Int b) { return combine<arith::AddIOp>(a, b); }
inline Int operator-(Int a, Int b) { return combine<arith::SubIOp>(a, b); }
inline Int operator*(Int a, Int b) { return combine<arith::MulIOp>(a, b); }
inline Int operator&(Int a, Int b) { return combine<arith::AndIOp>(a, b); }
inline Int operator|(Int a, Int b) { return combine<arith::OrIOp>(a, b); }
inline Int operator^(Int a, Int b) { return combine<arith::XOrIOp>(a, b); }
inline Int operator<<(Int a, Int b) { return combine<arith::ShLIOp>(a, b); }
inline Int shiftUnsigned(Int a, Int b) { return combine<arith::ShRUIOp>(a, b); }
inline Int divideUnsigned(Int a, Int b) {
  return combine<arith::DivUIOp>(a, b);
}
inline Int operator-(Int a) { return Int(0) - a; }

inline Long operator+(Long a, Long b) { return combine<arith::AddIOp>(a, b); }
inline Long operator-(Long a, Long b) { return combine<arith::SubIOp>(a, b); }
inline Long operator*(Long a, Long b) { return combine<arith::MulIOp>(a, b); }
inline Long operator<<(Long a, Long b) { return combine<arith::ShLIOp>(a, b); }
inline Long shiftUnsigned(Long a, Long b) {
  return combine<arith::ShRUIOp>(a, b);
}

inline Bool operator&(Bool a, Bool b) { return combine<arith::AndIOp>(a, b); }
inline Bool operator|(Bool a, Bool b) { return combine<arith::OrIOp>(a, b); }
inline Bool operator^(Bool a, Bool b) { return combine<arith::XOrIOp>(a, b); }
Bool operator!(Bool a);

/// False where one is NaN, but for !=.
Bool compare(arith::CmpFPredicate predicate, Float a, Float b);
inline Bool operator<(Float a, Float b) {
  return compare(arith::CmpFPredicate::OLT, a, b);
}
inline Bool operator>(Float a, Float b) {
  return compare(arith::CmpFPredicate::OGT, a, b);
}
inline Bool operator==(Float a, Float b) {
  return compare(arith::CmpFPredicate::OEQ, a, b);
}
inline Bool operator!=(Float a, Float b) {
  return compare(arith::CmpFPredicate::UNE, a, b);
}
/// Whether one is NaN.
inline Bool isUnordered(Float a, Float b) {
  return compare(arith::CmpFPredicate::UNO, a, b);
}
Bool operator==(Int a, Int b);
/// Whether the sign's bit is set.
Bool isNegative(Float a);

Float select(Bool condition, Float a, Float b);
Int select(Bool condition, Int a, Int b);

/// a * b + c, rounded once.
Float fma(Float a, Float b, Float c);
Float abs(Float a);
Float sqrt(Float a);
Float trunc(Float a);
/// |magnitude| with the sign of `sign`.
Float copySign(Float magnitude, Float sign);
/// At most `high`; NaN where a is.
Float clampBelow(Float a, double high);
/// Also at least `low`.
Float clamp(Float a, double low, double high);

Int getBits(Float a);
Float fromBits(Int a);
/// Rounded to nearest.
Float toFloat(Int a);
Float toFloat(Long a);
Long toLong(Float a);
/// Zeros in front.
Long widen(Int a);
Int narrow(Long a);

/// The sum of coefficients[i] x^i by Horner's rule, each step rounded once.
Float evaluate(Float x, ArrayRef<double> coefficients);

} // namespace mlir::fsdp::expand

#endif // FSDP_PASSES_LOWER_MATH_NUMBERS_H
