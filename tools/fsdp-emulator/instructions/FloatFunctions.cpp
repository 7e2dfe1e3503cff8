//===- FloatFunctions.cpp - Roots, ex2, lg2, sin, cos, tanh, testp --------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// Approximations of a device differ from each other. The ones here are rounded
// results, which lie within all of their error bounds, or, of exponentials and
// reciprocals, what Approximation.h makes of them.
//
//===----------------------------------------------------------------------===//

#include "instructions/Approximation.h"
#include "instructions/Arithmetic.h"
#include "instructions/DirectedRounding.h"
#include "instructions/Lanes.h"

#include <limits>

namespace fsdp::emulator {

namespace {

/// 2^x for |x| < 1000, to about 5e-9.
inline double exponential(double x) {
  double whole = std::nearbyint(x);
  double t = (x - whole) * 0.69314718055994531;
  double sum = 1.0 / 5040;
  sum = sum * t + 1.0 / 720;
  sum = sum * t + 1.0 / 120;
  sum = sum * t + 1.0 / 24;
  sum = sum * t + 1.0 / 6;
  sum = sum * t + 0.5;
  sum = sum * t + 1;
  sum = sum * t + 1;
  auto exponent = static_cast<int64_t>(static_cast<int32_t>(whole)) + 1023;
  return sum * std::bit_cast<double>(exponent << 52);
}

struct Exponential {
  float operator()(float a) const {
    // Beyond, results are 0 and infinity; NaN goes its own way.
    float inside = a > 200 ? 200 : a > -200 ? a : -200;
    auto value = static_cast<float>(exponential(inside));
    // Of zeros exactly 1.
    return a != a ? a : a == 0 ? value : approximated(value, 2);
  }
};
struct Logarithm {
  float operator()(float a) const { return std::log2(a); }
};
struct Reciprocal {
  float operator()(float a) const { return approximated(1 / a, 1); }
};
struct SquareRoot {
  float operator()(float a) const { return std::sqrt(a); }
};
struct ReciprocalRoot {
  float operator()(float a) const {
    return static_cast<float>(1 / std::sqrt(static_cast<double>(a)));
  }
};
struct Sine {
  float operator()(float a) const { return std::sin(a); }
};
struct Cosine {
  float operator()(float a) const { return std::cos(a); }
};
struct HyperbolicTangent {
  float operator()(float a) const { return std::tanh(a); }
};

template <typename F>
Instruction::Execute ofFloat(bool flushes) {
  if (flushes)
    return unary<float>(
        [](float a) { return flush(canonical(F{}(flush(a)))); });
  return unary<float>([](float a) { return canonical(F{}(a)); });
}

/// Only .approx, of f32.
template <typename F>
void decodeApproximation(Decoder &decoder) {
  if (!decoder.take("approx"))
    decoder.reject("expected .approx");
  bool flushes = decoder.take("ftz");
  Type type = decoder.expectType();
  if (isNarrowFloat(type)) {
    decodeNarrowFloat(decoder, type);
    return;
  }
  decoder.simpleOperands(type, 1);
  if (type != Type::F32)
    decoder.rejectType(type);
  decoder.instruction.execute = ofFloat<F>(flushes);
}

void decodeTanh(Decoder &decoder) {
  decodeApproximation<HyperbolicTangent>(decoder);
}

/// .approx of f32 and .ftz.f64, or rounded as IEEE 754 does.
template <typename F, FloatOperation operation>
void decodeRoot(Decoder &decoder) {
  bool isApproximate = decoder.take("approx");
  int rounding = decoder.takeOneOf({"rn", "rz", "rm", "rp"});
  bool flushes = decoder.take("ftz");
  Type type = decoder.expectType();
  decoder.simpleOperands(type, 1);
  if (isApproximate == (rounding >= 0))
    decoder.reject("expected .approx or a rounding");
  if (isApproximate && type == Type::F32) {
    decoder.instruction.execute = ofFloat<F>(flushes);
    return;
  }
  if (type != Type::F32 && type != Type::F64)
    decoder.rejectType(type);
  decoder.instruction.flag = flushes;
  decoder.instruction.execute =
      directed(operation, type == Type::F64,
               static_cast<Rounding>(std::max(rounding, 0)));
}

void decodeReciprocalRoot(Decoder &decoder) {
  if (!decoder.take("approx"))
    decoder.reject("expected .approx");
  bool flushes = decoder.take("ftz");
  Type type = decoder.expectType();
  decoder.simpleOperands(type, 1);
  if (type == Type::F32)
    decoder.instruction.execute = ofFloat<ReciprocalRoot>(flushes);
  else if (type == Type::F64)
    decoder.instruction.execute =
        unary<double>([](double a) { return 1 / std::sqrt(a); });
  else
    decoder.rejectType(type);
}

template <typename T, typename F>
void testLanes(Warp &warp, const Instruction &instruction, LaneMask mask) {
  const T *a = warp.lanes<const T>(instruction.sources[0]);
  LaneMask bits = 0;
  for (unsigned lane = 0; lane < warpSize; ++lane)
    bits |= LaneMask{F{}(a[lane])} << lane;
  warp.setPredicate(instruction.result, bits, mask);
}

template <typename T>
Instruction::Execute chooseTest(unsigned property) {
  auto test = [](auto function) { return testLanes<T, decltype(function)>; };
  constexpr T smallest = std::numeric_limits<T>::min();
  Instruction::Execute tests[] = {
      test([](T a) { return std::fabs(a) < INFINITY; }),
      test([](T a) { return std::fabs(a) == INFINITY; }),
      test([](T a) { return a == a; }),
      test([](T a) { return a != a; }),
      test([](T a) { return std::fabs(a) >= smallest && a - a == 0; }),
      test([](T a) { return a != 0 && std::fabs(a) < smallest; }),
  };
  return tests[property];
}

void decodeTestp(Decoder &decoder) {
  unsigned property = decoder.expectOneOf(
      {"finite", "infinite", "number", "notanumber", "normal", "subnormal"});
  Type type = decoder.expectType();
  decoder.expectOperands(2);
  decoder.instruction.result = decoder.result(0, Type::Pred);
  decoder.instruction.sources[0] = decoder.source(1, type);
  if (type == Type::F32)
    decoder.instruction.execute = chooseTest<float>(property);
  else if (type == Type::F64)
    decoder.instruction.execute = chooseTest<double>(property);
  else
    decoder.rejectType(type);
}

constexpr Opcode opcodes[] = {
    {"ex2", decodeApproximation<Exponential>},
    {"lg2", decodeApproximation<Logarithm>},
    {"sin", decodeApproximation<Sine>},
    {"cos", decodeApproximation<Cosine>},
    {"tanh", decodeTanh},
    {"rcp", decodeRoot<Reciprocal, FloatOperation::Reciprocal>},
    {"sqrt", decodeRoot<SquareRoot, FloatOperation::SquareRoot>},
    {"rsqrt", decodeReciprocalRoot},
    {"testp", decodeTestp},
};

} // namespace

std::span<const Opcode> floatFunctionOpcodes() { return opcodes; }

} // namespace fsdp::emulator
