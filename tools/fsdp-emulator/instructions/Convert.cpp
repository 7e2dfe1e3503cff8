//===- Convert.cpp - cvt --------------------------------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// What compilers emit most has a loop of its own. All else goes lane by lane
// through a wide integer or a double, which hold every number of every type.
//
//===----------------------------------------------------------------------===//

#include "instructions/FloatFormats.h"
#include "instructions/KernelBuilder.h"
#include "instructions/Lanes.h"

#include <algorithm>
#include <limits>

namespace fsdp::emulator {

namespace {

__extension__ using Wide = __int128;

/// What a cvt says: the bits of its instruction's `immediate`.
struct Conversion {
  Type to = Type::None;
  Type from = Type::None;
  Rounding rounding = Rounding::Nearest;
  /// .rni and the like: to an integer, whatever the type.
  bool roundsToInteger = false;
  bool flushes = false;
  bool saturates = false;
  bool isRelu = false;
  /// .satfinite: the largest number instead of infinity.
  bool isFinite = false;
};

Wide lowest(Type type) {
  return isSigned(type) ? -(Wide(1) << (bitsOf(type) - 1)) : 0;
}
Wide highest(Type type) {
  return (Wide(1) << (bitsOf(type) - isSigned(type))) - 1;
}

double roundToInteger(double value, Rounding rounding) {
  switch (rounding) {
  case Rounding::Zero:
    return std::trunc(value);
  case Rounding::Down:
    return std::floor(value);
  case Rounding::Up:
    return std::ceil(value);
  default:
    return std::nearbyint(value);
  }
}

/// 0 for NaN; what is out of range becomes the nearest number that is not.
uint64_t integerOf(double value, const Conversion &conversion) {
  if (value != value)
    return 0;
  double whole = roundToInteger(value, conversion.rounding);
  // Powers of two are exact in a double, where the largest integer is not.
  if (whole < static_cast<double>(lowest(conversion.to)))
    return static_cast<uint64_t>(lowest(conversion.to));
  if (whole >= std::ldexp(1.0, static_cast<int>(bitsOf(conversion.to)) -
                                   isSigned(conversion.to)))
    return static_cast<uint64_t>(highest(conversion.to));
  return static_cast<uint64_t>(static_cast<Wide>(whole));
}

uint64_t floatBits(double value, const Conversion &conversion) {
  if (conversion.isRelu && value < 0)
    value = 0;
  if (conversion.isRelu && value == 0)
    value = 0.0;
  if (conversion.saturates)
    value = saturate(value);
  uint64_t bits = encodeFloat(value, conversion.to, conversion.rounding);
  if (conversion.isFinite && std::isinf(decodeFloat(bits, conversion.to)))
    bits = encodeFloat(std::copysign(std::numeric_limits<double>::max(), value),
                       conversion.to, Rounding::Zero);
  if (conversion.flushes && conversion.to == Type::F32)
    bits = std::bit_cast<uint32_t>(
        flush(std::bit_cast<float>(static_cast<uint32_t>(bits))));
  return bits;
}

uint64_t convertFloat(uint64_t bits, const Conversion &conversion) {
  double value = decodeFloat(bits, conversion.from);
  if (conversion.flushes && conversion.from == Type::F32)
    value = flush(static_cast<float>(value));
  if (!isFloat(conversion.to))
    return integerOf(value, conversion);
  if (conversion.roundsToInteger)
    value = roundToInteger(value, conversion.rounding);
  return floatBits(value, conversion);
}

uint64_t convertInteger(uint64_t bits, const Conversion &conversion) {
  unsigned unused = 64 - bitsOf(conversion.from);
  Wide value = isSigned(conversion.from)
                   ? Wide(static_cast<int64_t>(bits << unused) >> unused)
                   : Wide(bits << unused >> unused);
  if (!isFloat(conversion.to)) {
    if (conversion.saturates)
      value = std::clamp(value, lowest(conversion.to), highest(conversion.to));
    return static_cast<uint64_t>(value);
  }
  bool isNegative = value < 0;
  auto magnitude = static_cast<uint64_t>(isNegative ? -value : value);
  uint64_t result = encodeScaled(isNegative, magnitude, 0, false,
                                 formatOf(conversion.to), conversion.rounding);
  if (!conversion.saturates)
    return result;
  return floatBits(decodeFloat(result, conversion.to), conversion);
}

/// Registers have 2, 4 or 8 bytes a lane.
void loadRegister(const Warp &warp, Slot slot, unsigned bytes,
                  uint64_t *values) {
  auto copy = [&](const auto *lanes) {
    for (unsigned lane = 0; lane < warpSize; ++lane)
      values[lane] = lanes[lane];
  };
  if (bytes == 2)
    copy(warp.lanes<const uint16_t>(slot));
  else if (bytes == 4)
    copy(warp.lanes<const uint32_t>(slot));
  else
    copy(warp.lanes<const uint64_t>(slot));
}

void storeRegister(const Warp &warp, Slot slot, unsigned bytes,
                   const uint64_t *values, LaneMask mask) {
  auto store = [&](auto *lanes) {
    using T = std::remove_pointer_t<decltype(lanes)>;
    T narrow[warpSize];
    for (unsigned lane = 0; lane < warpSize; ++lane)
      narrow[lane] = static_cast<T>(values[lane]);
    storeLanes(lanes, narrow, mask);
  };
  if (bytes == 2)
    store(warp.lanes<uint16_t>(slot));
  else if (bytes == 4)
    store(warp.lanes<uint32_t>(slot));
  else
    store(warp.lanes<uint64_t>(slot));
}

/// A number in a register that is wider than its type: `unused` bits of 64 are
/// copies of its sign, or zeros.
void extend(uint64_t *values, unsigned unused, bool hasSign) {
  for (unsigned lane = 0; lane < warpSize; ++lane) {
    uint64_t top = values[lane] << unused;
    values[lane] =
        hasSign ? static_cast<uint64_t>(static_cast<int64_t>(top) >> unused)
                : top >> unused;
  }
}

/// Integers without .sat. `mode`: bits of the source's type, `vectorLength`:
/// of the result's; bit 0 of `immediate`: the source has a sign, bit 1: the
/// result.
void resizeIntegers(Warp &warp, const Instruction &instruction, LaneMask mask) {
  uint64_t values[warpSize];
  loadRegister(warp, instruction.sources[0], instruction.accessBytes, values);
  extend(values, 64 - instruction.mode, instruction.immediate & 1);
  extend(values, 64 - instruction.vectorLength, instruction.immediate & 2);
  storeRegister(warp, instruction.result, instruction.registerBytes, values,
                mask);
}

template <typename Convert>
void convertLanes(Warp &warp, const Instruction &instruction, LaneMask mask,
                  Convert convert) {
  uint64_t values[warpSize];
  auto conversion = std::bit_cast<Conversion>(instruction.immediate);
  loadRegister(warp, instruction.sources[0], instruction.accessBytes, values);
  for (LaneMask left = mask; left; left &= left - 1) {
    uint64_t &value = values[std::countr_zero(left)];
    value = convert(value, conversion);
  }
  if (!isFloat(conversion.to))
    extend(values, 64 - bitsOf(conversion.to), isSigned(conversion.to));
  storeRegister(warp, instruction.result, instruction.registerBytes, values,
                mask);
}

void convertFloats(Warp &warp, const Instruction &instruction, LaneMask mask) {
  convertLanes(warp, instruction, mask, convertFloat);
}
void convertIntegers(Warp &warp, const Instruction &instruction,
                     LaneMask mask) {
  convertLanes(warp, instruction, mask, convertInteger);
}

/// Two f32 become the halves of a register, the first one the upper.
void packFloats(Warp &warp, const Instruction &instruction, LaneMask mask) {
  auto conversion = std::bit_cast<Conversion>(instruction.immediate);
  const auto *high = warp.lanes<const float>(instruction.sources[0]);
  const auto *low = warp.lanes<const float>(instruction.sources[1]);
  uint32_t values[warpSize];
  for (unsigned lane = 0; lane < warpSize; ++lane)
    values[lane] =
        static_cast<uint32_t>(floatBits(high[lane], conversion) << 16 |
                              floatBits(low[lane], conversion));
  storeLanes(warp.lanes<uint32_t>(instruction.result), values, mask);
}

template <typename T>
T integerOfFloat(float value) {
  using Limits = std::numeric_limits<T>;
  constexpr float above =
      2 * static_cast<float>(T(1) << (8 * sizeof(T) - 1 - std::is_signed_v<T>));
  bool isInside = value >= static_cast<float>(Limits::min()) && value < above;
  auto inside = static_cast<T>(isInside ? value : 0);
  return value >= above                              ? Limits::max()
         : value < static_cast<float>(Limits::min()) ? Limits::min()
                                                     : inside;
}

/// A loop of its own, or null. Registers are as wide as their types.
Instruction::Execute chooseFast(const Conversion &c) {
  auto is = [&](Type to, Type from) { return c.to == to && c.from == from; };
  if (c.flushes || c.isRelu || c.isFinite)
    return nullptr;
  if (is(Type::F32, Type::F32)) {
    if (c.saturates)
      return c.roundsToInteger
                 ? nullptr
                 : unary<float>([](float a) { return saturate(a); });
    switch (c.rounding) {
    case Rounding::Zero:
      return unary<float>([](float a) { return canonical(std::trunc(a)); });
    case Rounding::Down:
      return unary<float>([](float a) { return canonical(std::floor(a)); });
    case Rounding::Up:
      return unary<float>([](float a) { return canonical(std::ceil(a)); });
    default:
      return c.roundsToInteger ? unary<float>([](float a) {
        return canonical(std::nearbyint(a));
      })
                               : nullptr;
    }
  }
  if (c.saturates)
    return nullptr;
  if (is(Type::F32, Type::BF16))
    return laneWise<float, uint16_t>([](uint16_t a) { return floatOfBF16(a); });
  if (is(Type::F32, Type::F16))
    return laneWise<float, uint16_t>([](uint16_t a) { return floatOfF16(a); });
  if (is(Type::S32, Type::F32) && c.rounding == Rounding::Zero)
    return laneWise<int32_t, float>(
        [](float a) { return integerOfFloat<int32_t>(a); });
  if (is(Type::U32, Type::F32) && c.rounding == Rounding::Zero)
    return laneWise<uint32_t, float>(
        [](float a) { return integerOfFloat<uint32_t>(a); });
  if (is(Type::S32, Type::F32) && c.rounding == Rounding::Nearest)
    return laneWise<int32_t, float>(
        [](float a) { return integerOfFloat<int32_t>(std::nearbyint(a)); });
  if (is(Type::F64, Type::F32))
    return laneWise<double, float>([](float a) { return double{a}; });
  if (c.rounding != Rounding::Nearest || c.roundsToInteger)
    return nullptr;
  if (is(Type::F32, Type::F64))
    return laneWise<float, double>(
        [](double a) { return canonical(static_cast<float>(a)); });
  if (is(Type::BF16, Type::F32))
    return laneWise<uint16_t, float>([](float a) { return bf16OfFloat(a); });
  if (is(Type::F16, Type::F32))
    return laneWise<uint16_t, float>([](float a) { return f16OfFloat(a); });
  if (is(Type::F32, Type::S32))
    return laneWise<float, int32_t>(
        [](int32_t a) { return static_cast<float>(a); });
  if (is(Type::F32, Type::U32))
    return laneWise<float, uint32_t>(
        [](uint32_t a) { return static_cast<float>(a); });
  if (is(Type::F32, Type::S64))
    return laneWise<float, int64_t>(
        [](int64_t a) { return static_cast<float>(a); });
  return nullptr;
}

Conversion takeConversion(Decoder &decoder) {
  Conversion conversion;
  int rounding = decoder.takeOneOf({"rn", "rz", "rm", "rp", "rna"});
  int toInteger = decoder.takeOneOf({"rni", "rzi", "rmi", "rpi"});
  if (rounding >= 0)
    conversion.rounding = static_cast<Rounding>(rounding);
  if (toInteger >= 0) {
    conversion.rounding = static_cast<Rounding>(toInteger);
    conversion.roundsToInteger = true;
  }
  conversion.flushes = decoder.take("ftz");
  conversion.saturates = decoder.take("sat");
  conversion.isRelu = decoder.take("relu");
  conversion.isFinite = decoder.take("satfinite");
  conversion.to = decoder.expectType();
  conversion.from = decoder.expectType();
  // PTX asks for a rounding where a result may not be exact.
  bool isExactFloat = isFloat(conversion.to) && isFloat(conversion.from) &&
                      bitsOf(conversion.to) >= bitsOf(conversion.from) &&
                      conversion.to != Type::TF32;
  bool isBetweenFloats = isFloat(conversion.to) || isFloat(conversion.from);
  if (isBetweenFloats && !isExactFloat && rounding < 0 && toInteger < 0)
    decoder.reject("expected a rounding");
  if (isFloat(conversion.from) && !isFloat(conversion.to) && toInteger < 0)
    decoder.reject("expected a rounding to an integer");
  return conversion;
}

void decodePair(Decoder &decoder, Conversion conversion) {
  Instruction &instruction = decoder.instruction;
  if (conversion.from != Type::F32)
    decoder.rejectType(conversion.from);
  decoder.expectOperands(3);
  instruction.result = decoder.result(0, conversion.to);
  instruction.sources[0] = decoder.source(1, Type::F32);
  instruction.sources[1] = decoder.source(2, Type::F32);
  bool isBrain = conversion.to == Type::BF16x2;
  conversion.to = isBrain ? Type::BF16 : Type::F16;
  instruction.immediate = std::bit_cast<int64_t>(conversion);
  instruction.execute = packFloats;
  if (conversion.rounding != Rounding::Nearest || conversion.isRelu)
    return;
  auto choose = [](auto isB) {
    return laneWise<uint32_t, float, float>([](float high, float low) {
      auto narrow = [](float value) {
        return decltype(isB)::value ? bf16OfFloat(value) : f16OfFloat(value);
      };
      return uint32_t{narrow(high)} << 16 | narrow(low);
    });
  };
  instruction.execute =
      isBrain ? choose(std::true_type()) : choose(std::false_type());
}

void decodeCvt(Decoder &decoder) {
  Instruction &instruction = decoder.instruction;
  Conversion conversion = takeConversion(decoder);
  Type to = conversion.to, from = conversion.from;
  if (to == Type::F16x2 || to == Type::BF16x2) {
    decodePair(decoder, conversion);
    return;
  }
  auto isConvertible = [](Type type) {
    return isInteger(type) ||
           (isFloat(type) && !(type == Type::F16x2) && !(type == Type::BF16x2));
  };
  if (!isConvertible(to) || !isConvertible(from) || from == Type::TF32)
    decoder.reject("expected types that the emulator converts");
  decoder.expectOperands(2);
  unsigned resultBytes = 0, sourceBytes = 0;
  instruction.result =
      decoder.wideRegister(decoder.operand(0), to, resultBytes);
  if (!instruction.result || !decoder.isRegister(decoder.operand(0)))
    decoder.reject("expected a register for the result");
  instruction.sources[0] =
      decoder.wideRegister(decoder.operand(1), from, sourceBytes);
  instruction.registerBytes = static_cast<uint8_t>(resultBytes);
  instruction.accessBytes = static_cast<uint8_t>(sourceBytes);
  if (!isFloat(to) && !isFloat(from) && !conversion.saturates) {
    instruction.mode = static_cast<uint8_t>(bitsOf(from));
    instruction.vectorLength = static_cast<uint8_t>(bitsOf(to));
    instruction.immediate = isSigned(from) | isSigned(to) << 1;
    instruction.execute = resizeIntegers;
    return;
  }
  static_assert(sizeof(Conversion) == sizeof(instruction.immediate));
  instruction.immediate = std::bit_cast<int64_t>(conversion);
  instruction.execute = isFloat(from) ? convertFloats : convertIntegers;
  bool areWidthsNatural =
      resultBytes == bytesOf(to) && sourceBytes == bytesOf(from);
  if (Instruction::Execute fast = chooseFast(conversion);
      fast && areWidthsNatural)
    instruction.execute = fast;
}

constexpr Opcode opcodes[] = {{"cvt", decodeCvt}};

} // namespace

std::span<const Opcode> convertOpcodes() { return opcodes; }

} // namespace fsdp::emulator
