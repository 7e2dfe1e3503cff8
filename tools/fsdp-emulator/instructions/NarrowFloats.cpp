//===- NarrowFloats.cpp - Arithmetic of f16, bf16 and two of them ---------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// Sums, products and quotients are rounded twice, to f32 and to 11 or 8 bits.
// That is the same as once, since f32 has more than twice as many bits. A
// product plus a sum is not, and so is rounded to odd in between.
//
//===----------------------------------------------------------------------===//

#include "instructions/Arithmetic.h"
#include "instructions/FloatFormats.h"
#include "instructions/Lanes.h"

namespace fsdp::emulator {

namespace {

struct F16 {
  static float load(uint16_t bits) { return floatOfF16(bits); }
  static uint16_t store(float value) { return f16OfFloat(value); }
  static constexpr uint16_t exponent = 0x7c00;
};
struct BF16 {
  static float load(uint16_t bits) { return floatOfBF16(bits); }
  static uint16_t store(float value) { return bf16OfFloat(value); }
  static constexpr uint16_t exponent = 0x7f80;
};

/// Bits of an instruction's mode.
enum Mode : uint8_t { Flushes = 1, Saturates = 2, IsRelu = 4 };

template <typename Format>
uint16_t flushBits(uint16_t bits) {
  return bits & Format::exponent ? bits : bits & 0x8000;
}

template <typename Format, typename F, typename... Sources>
uint16_t applyTo(uint8_t mode, Sources... sources) {
  auto load = [&](uint16_t bits) {
    return Format::load(mode & Flushes ? flushBits<Format>(bits) : bits);
  };
  float value = F{}(load(sources)...);
  if (mode & Saturates)
    value = saturate(value);
  if (mode & IsRelu)
    value = value < 0 ? 0 : value;
  uint16_t bits = Format::store(value);
  if ((mode & IsRelu) && bits == 0x8000)
    bits = 0;
  return mode & Flushes ? flushBits<Format>(bits) : bits;
}

/// T is uint16_t for one number, uint32_t for two.
template <typename Format, typename F, typename T, typename... Sources>
struct NarrowLoop {
  template <size_t... indices>
  static void run(Warp &warp, const Instruction &instruction, LaneMask mask,
                  std::index_sequence<indices...>) {
    auto loop = [&](const Sources *...sources) {
      T values[warpSize];
      for (unsigned lane = 0; lane < warpSize; ++lane) {
        values[lane] = applyTo<Format, F>(
            instruction.mode, static_cast<uint16_t>(sources[lane])...);
        if constexpr (sizeof(T) == 4)
          values[lane] |= uint32_t{applyTo<Format, F>(
                              instruction.mode,
                              static_cast<uint16_t>(sources[lane] >> 16)...)}
                          << 16;
      }
      storeLanes(warp.lanes<T>(instruction.result), values, mask);
    };
    loop(warp.lanes<const Sources>(instruction.sources[indices])...);
  }
  static void execute(Warp &warp, const Instruction &instruction,
                      LaneMask mask) {
    run(warp, instruction, mask, std::index_sequence_for<Sources...>());
  }
};

template <typename Format, typename F, unsigned sources, typename T>
Instruction::Execute choose() {
  if constexpr (sources == 1)
    return NarrowLoop<Format, F, T, T>::execute;
  else if constexpr (sources == 2)
    return NarrowLoop<Format, F, T, T, T>::execute;
  else
    return NarrowLoop<Format, F, T, T, T, T>::execute;
}

struct Add {
  float operator()(float a, float b) const { return a + b; }
};
struct Subtract {
  float operator()(float a, float b) const { return a - b; }
};
struct Multiply {
  float operator()(float a, float b) const { return a * b; }
};
struct MultiplyAdd {
  float operator()(float a, float b, float c) const {
    return roundToOdd(addRoundedToOdd(double{a} * b, c));
  }
};
template <bool isMax, bool keepsNaN>
struct Extreme {
  float operator()(float a, float b) const {
    bool isAbove = a == b ? std::signbit(b) : a > b;
    float chosen = isAbove == isMax ? a : b;
    if (keepsNaN)
      return a != a ? a : b != b ? b : chosen;
    return a != a ? b : b != b ? a : chosen;
  }
};
struct Exponential {
  float operator()(float a) const { return std::exp2(a); }
};
struct HyperbolicTangent {
  float operator()(float a) const { return std::tanh(a); }
};

bool isPair(Type type) { return type == Type::F16x2 || type == Type::BF16x2; }
bool isHalf(Type type) { return type == Type::F16 || type == Type::F16x2; }

template <typename F, unsigned sources>
void decodeOperation(Decoder &decoder, Type type) {
  decoder.simpleOperands(type, sources);
  if (isHalf(type))
    decoder.instruction.execute = isPair(type)
                                      ? choose<F16, F, sources, uint32_t>()
                                      : choose<F16, F, sources, uint16_t>();
  else
    decoder.instruction.execute = isPair(type)
                                      ? choose<BF16, F, sources, uint32_t>()
                                      : choose<BF16, F, sources, uint16_t>();
}

template <bool isMax>
void decodeExtreme(Decoder &decoder, Type type) {
  if (decoder.take("NaN"))
    decodeOperation<Extreme<isMax, true>, 2>(decoder, type);
  else
    decodeOperation<Extreme<isMax, false>, 2>(decoder, type);
}

/// Signs are bits.
void decodeSign(Decoder &decoder, Type type, bool isNegation) {
  decoder.simpleOperands(type, 1);
  if (isPair(type))
    decoder.instruction.execute =
        isNegation
            ? unary<uint32_t>([](uint32_t a) { return a ^ 0x80008000u; })
            : unary<uint32_t>([](uint32_t a) { return a & 0x7fff7fffu; });
  else
    decoder.instruction.execute =
        isNegation ? unary<uint16_t>([](uint16_t a) {
          return static_cast<uint16_t>(a ^ 0x8000);
        })
                   : unary<uint16_t>([](uint16_t a) {
                       return static_cast<uint16_t>(a & 0x7fff);
                     });
}

} // namespace

void decodeNarrowFloat(Decoder &decoder, Type type) {
  std::string_view opcode = decoder.syntax.opcode;
  uint8_t mode = 0;
  if (isHalf(type) && decoder.take("ftz"))
    mode |= Flushes;
  if (opcode == "neg" || opcode == "abs") {
    if (mode)
      decoder.reject("expected no .ftz of f16 with a sign");
    decodeSign(decoder, type, opcode == "neg");
    return;
  }
  bool isExtreme = opcode == "min" || opcode == "max";
  bool isFunction = opcode == "ex2" || opcode == "tanh";
  if (!isExtreme && !isFunction)
    decoder.take("rn");
  if (isHalf(type) && !isExtreme && !isFunction && decoder.take("sat"))
    mode |= Saturates;
  if (opcode == "fma" && decoder.take("relu"))
    mode |= IsRelu;
  if (opcode == "add")
    decodeOperation<Add, 2>(decoder, type);
  else if (opcode == "sub")
    decodeOperation<Subtract, 2>(decoder, type);
  else if (opcode == "mul")
    decodeOperation<Multiply, 2>(decoder, type);
  else if (opcode == "fma")
    decodeOperation<MultiplyAdd, 3>(decoder, type);
  else if (opcode == "min")
    decodeExtreme<false>(decoder, type);
  else if (opcode == "max")
    decodeExtreme<true>(decoder, type);
  else if (opcode == "ex2")
    decodeOperation<Exponential, 1>(decoder, type);
  else if (opcode == "tanh")
    decodeOperation<HyperbolicTangent, 1>(decoder, type);
  else
    decoder.rejectType(type);
  // ex2.approx.ftz.bf16: it has no other form.
  if (opcode == "ex2" && !isHalf(type))
    mode |= Flushes;
  decoder.instruction.mode = mode;
}

} // namespace fsdp::emulator
