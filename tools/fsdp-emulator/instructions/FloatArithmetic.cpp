//===- FloatArithmetic.cpp - add, sub, mul, fma, div, min, max, neg, abs --===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "instructions/Approximation.h"
#include "instructions/Arithmetic.h"
#include "instructions/DirectedRounding.h"
#include "instructions/Lanes.h"

#include <optional>

namespace fsdp::emulator {

namespace {

/// What an instruction says beside its type.
struct FloatModifiers {
  Rounding rounding = Rounding::Nearest;
  bool flushes = false;
  bool saturates = false;
};

FloatModifiers takeModifiers(Decoder &decoder, Type type) {
  FloatModifiers modifiers;
  int rounding = decoder.takeOneOf({"rn", "rz", "rm", "rp"});
  if (rounding > 0)
    modifiers.rounding = static_cast<Rounding>(rounding);
  if (type == Type::F32) {
    modifiers.flushes = decoder.take("ftz");
    modifiers.saturates = decoder.take("sat");
  }
  return modifiers;
}

/// function(sources..) with .ftz and .sat, NaNs canonical.
template <typename F, bool flushes, bool saturates>
struct Modified {
  template <typename T>
  static T flushed(T value) {
    if constexpr (flushes)
      return flush(value);
    return value;
  }
  template <typename T, typename... Sources>
  T operator()(T first, Sources... others) const {
    T value = flushed(canonical(F{}(flushed(first), flushed(others)...)));
    if constexpr (saturates)
      return saturate(value);
    return value;
  }
};

template <typename F, typename... Sources>
Instruction::Execute chooseModified(const FloatModifiers &modifiers) {
  using std::bool_constant;
  auto choose = [](auto flushes, auto saturates) {
    return laneWise<float, Sources...>(
        Modified<F, decltype(flushes)::value, decltype(saturates)::value>{});
  };
  if (modifiers.flushes)
    return modifiers.saturates
               ? choose(bool_constant<true>(), bool_constant<true>())
               : choose(bool_constant<true>(), bool_constant<false>());
  return modifiers.saturates
             ? choose(bool_constant<false>(), bool_constant<true>())
             : choose(bool_constant<false>(), bool_constant<false>());
}

struct Add {
  template <typename T>
  T operator()(T a, T b) const {
    return a + b;
  }
};
struct Subtract {
  template <typename T>
  T operator()(T a, T b) const {
    return a - b;
  }
};
struct Multiply {
  template <typename T>
  T operator()(T a, T b) const {
    return a * b;
  }
};
struct Divide {
  template <typename T>
  T operator()(T a, T b) const {
    return a / b;
  }
};
struct MultiplyAdd {
  float operator()(float a, float b, float c) const {
    return __builtin_fmaf(a, b, c);
  }
  double operator()(double a, double b, double c) const {
    return __builtin_fma(a, b, c);
  }
};

void useDirected(Decoder &decoder, FloatOperation operation, Type type,
                 const FloatModifiers &modifiers) {
  decoder.instruction.flag = modifiers.flushes;
  decoder.instruction.mode = modifiers.saturates;
  decoder.instruction.execute =
      directed(operation, type == Type::F64, modifiers.rounding);
}

template <typename F>
void decodeBinary(Decoder &decoder, FloatOperation operation, Type type) {
  FloatModifiers modifiers = takeModifiers(decoder, type);
  decoder.simpleOperands(type, 2);
  if (modifiers.rounding != Rounding::Nearest)
    useDirected(decoder, operation, type, modifiers);
  else if (type == Type::F64)
    decoder.instruction.execute = binary<double>(F{});
  else
    decoder.instruction.execute = chooseModified<F, float, float>(modifiers);
}

void decodeMultiplyAdd(Decoder &decoder, Type type) {
  FloatModifiers modifiers = takeModifiers(decoder, type);
  decoder.simpleOperands(type, 3);
  if (modifiers.rounding != Rounding::Nearest)
    useDirected(decoder, FloatOperation::MultiplyAdd, type, modifiers);
  else if (type == Type::F64)
    decoder.instruction.execute = ternary<double>(MultiplyAdd{});
  else
    decoder.instruction.execute =
        chooseModified<MultiplyAdd, float, float, float>(modifiers);
}

/// Of divisors from 2^126 on, div.approx makes zeros, or NaN of an infinity.
struct DivideApproximately {
  float operator()(float a, float b) const {
    bool isLarge = std::fabs(b) > 0x1p126f && std::fabs(b) < INFINITY;
    float large =
        std::fabs(a) == INFINITY
            ? canonicalNaN()
            : std::copysign(0.0f,
                            std::signbit(a) == std::signbit(b) ? 1.0f : -1.0f);
    return isLarge && a == a ? large : approximated(a / b, 2);
  }
};
struct DivideFully {
  float operator()(float a, float b) const { return approximated(a / b, 2); }
};

void decodeDivision(Decoder &decoder, Type type) {
  int approximation = decoder.takeOneOf({"approx", "full"});
  if (approximation < 0) {
    decodeBinary<Divide>(decoder, FloatOperation::Divide, type);
    return;
  }
  if (type != Type::F32)
    decoder.rejectType(type);
  FloatModifiers modifiers;
  modifiers.flushes = decoder.take("ftz");
  decoder.simpleOperands(type, 2);
  decoder.instruction.execute =
      approximation == 0
          ? chooseModified<DivideApproximately, float, float>(modifiers)
          : chooseModified<DivideFully, float, float>(modifiers);
}

/// The smaller or larger one; -0 is below +0. Of a NaN, the other one, unless
/// the instruction says .NaN.
template <bool isMax, bool keepsNaN>
struct Extreme {
  template <typename T>
  T operator()(T a, T b) const {
    bool isAbove = a == b ? std::signbit(b) : a > b;
    T chosen = isAbove == isMax ? a : b;
    if (keepsNaN)
      return a != a ? a : b != b ? b : chosen;
    return a != a ? b : b != b ? a : chosen;
  }
};

template <bool isMax>
void decodeExtreme(Decoder &decoder, Type type) {
  FloatModifiers modifiers;
  bool keepsNaN = false;
  if (type == Type::F32) {
    modifiers.flushes = decoder.take("ftz");
    keepsNaN = decoder.take("NaN");
  }
  decoder.simpleOperands(type, 2);
  if (type == Type::F64)
    decoder.instruction.execute = binary<double>(Extreme<isMax, false>{});
  else if (keepsNaN)
    decoder.instruction.execute =
        chooseModified<Extreme<isMax, true>, float, float>(modifiers);
  else
    decoder.instruction.execute =
        chooseModified<Extreme<isMax, false>, float, float>(modifiers);
}

/// These change the sign alone, also of NaNs.
template <bool isNegation>
void decodeSign(Decoder &decoder, Type type) {
  bool flushes = type == Type::F32 && decoder.take("ftz");
  decoder.simpleOperands(type, 1);
  auto choose = [](auto zero, auto isFlushed) {
    using T = decltype(zero);
    return unary<T>([](T a) {
      T value = isNegation ? -a : std::fabs(a);
      if constexpr (decltype(isFlushed)::value)
        return flush(value);
      else
        return value;
    });
  };
  if (type == Type::F64)
    decoder.instruction.execute = choose(double(), std::false_type());
  else if (flushes)
    decoder.instruction.execute = choose(float(), std::true_type());
  else
    decoder.instruction.execute = choose(float(), std::false_type());
}

/// copysign d, a, b: b with the sign of a.
void decodeCopysign(Decoder &decoder) {
  Type type = decoder.expectType();
  decoder.simpleOperands(type, 2);
  if (type == Type::F64)
    decoder.instruction.execute =
        binary<double>([](double a, double b) { return std::copysign(b, a); });
  else if (type == Type::F32)
    decoder.instruction.execute =
        binary<float>([](float a, float b) { return std::copysign(b, a); });
  else
    decoder.rejectType(type);
}

void decodeOfFloat(Decoder &decoder, Type type) {
  std::string_view opcode = decoder.syntax.opcode;
  if (opcode == "add")
    decodeBinary<Add>(decoder, FloatOperation::Add, type);
  else if (opcode == "sub")
    decodeBinary<Subtract>(decoder, FloatOperation::Subtract, type);
  else if (opcode == "mul")
    decodeBinary<Multiply>(decoder, FloatOperation::Multiply, type);
  else if (opcode == "fma" || opcode == "mad")
    decodeMultiplyAdd(decoder, type);
  else if (opcode == "div")
    decodeDivision(decoder, type);
  else if (opcode == "min")
    decodeExtreme<false>(decoder, type);
  else if (opcode == "max")
    decodeExtreme<true>(decoder, type);
  else if (opcode == "neg")
    decodeSign<true>(decoder, type);
  else if (opcode == "abs")
    decodeSign<false>(decoder, type);
  else
    decoder.rejectType(type);
}

/// Opcodes that integers and floats share.
void decodeAny(Decoder &decoder) {
  std::string_view opcode = decoder.syntax.opcode;
  if ((opcode == "add" || opcode == "min" || opcode == "max") &&
      decodePackedIntegers(decoder))
    return;
  Type type = decoder.expectType();
  bool isProduct = opcode == "mul" || opcode == "mad";
  if (type == Type::F32 || type == Type::F64)
    decodeOfFloat(decoder, type);
  else if (isNarrowFloat(type))
    decodeNarrowFloat(decoder, type);
  else if (isProduct)
    decodeIntegerProduct(decoder, type);
  else
    decodeIntegerOpcode(decoder, type);
}

constexpr Opcode opcodes[] = {
    {"add", decodeAny}, {"sub", decodeAny},           {"mul", decodeAny},
    {"mad", decodeAny}, {"fma", decodeAny},           {"div", decodeAny},
    {"min", decodeAny}, {"max", decodeAny},           {"neg", decodeAny},
    {"abs", decodeAny}, {"copysign", decodeCopysign},
};

} // namespace

std::span<const Opcode> floatOpcodes() { return opcodes; }

} // namespace fsdp::emulator
