//===- Multiply.cpp - Products of integers --------------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "instructions/Arithmetic.h"
#include "instructions/Lanes.h"

#include <algorithm>
#include <limits>

namespace fsdp::emulator {

namespace {

enum class Half : uint8_t { Low, High, Wide };

__extension__ using Int128 = __int128;
__extension__ using UInt128 = unsigned __int128;

/// Twice as wide as T, and of the same sign.
template <typename T>
struct Wider;
template <>
struct Wider<uint16_t> {
  using Type = uint32_t;
};
template <>
struct Wider<int16_t> {
  using Type = int32_t;
};
template <>
struct Wider<uint32_t> {
  using Type = uint64_t;
};
template <>
struct Wider<int32_t> {
  using Type = int64_t;
};
template <>
struct Wider<uint64_t> {
  using Type = UInt128;
};
template <>
struct Wider<int64_t> {
  using Type = Int128;
};

template <typename T>
T lowProduct(T a, T b) {
  // As 64 bits, since 16 of them are promoted to an int that may overflow.
  return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}

template <typename T>
T highProduct(T a, T b) {
  using Wide = typename Wider<T>::Type;
  return static_cast<T>(static_cast<Wide>(static_cast<Wide>(a) * b) >>
                        (8 * sizeof(T)));
}

template <typename T>
typename Wider<T>::Type wideProduct(T a, T b) {
  using Wide = typename Wider<T>::Type;
  return static_cast<Wide>(static_cast<Wide>(a) * static_cast<Wide>(b));
}

template <typename T>
T wrappingSum(T a, T b) {
  using U = std::make_unsigned_t<T>;
  return static_cast<T>(static_cast<U>(static_cast<U>(a) + static_cast<U>(b)));
}

Type widerType(Decoder &decoder, Type type) {
  switch (type) {
  case Type::U16:
    return Type::U32;
  case Type::S16:
    return Type::S32;
  case Type::U32:
    return Type::U64;
  case Type::S32:
    return Type::S64;
  default:
    decoder.rejectType(type);
  }
}

void decodeWide(Decoder &decoder, Type type, bool isSum) {
  Instruction &instruction = decoder.instruction;
  Type wide = widerType(decoder, type);
  decoder.expectOperands(isSum ? 4 : 3);
  instruction.result = decoder.result(0, wide);
  instruction.sources[0] = decoder.source(1, type);
  instruction.sources[1] = decoder.source(2, type);
  if (isSum)
    instruction.sources[2] = decoder.source(3, wide);
  auto choose = [&](auto zero) {
    using T = decltype(zero);
    using Wide = typename Wider<T>::Type;
    if (isSum)
      return laneWise<Wide, T, T, Wide>(
          [](T a, T b, Wide c) { return wrappingSum(wideProduct(a, b), c); });
    return laneWise<Wide, T, T>([](T a, T b) { return wideProduct(a, b); });
  };
  switch (type) {
  case Type::U16:
    instruction.execute = choose(uint16_t());
    break;
  case Type::S16:
    instruction.execute = choose(int16_t());
    break;
  case Type::U32:
    instruction.execute = choose(uint32_t());
    break;
  default:
    instruction.execute = choose(int32_t());
    break;
  }
}

/// mad.cc and madc: the halves of a product (`sgn` of 32 or 64 bits) plus c
/// plus the carry. `mode` bit 0: the high half; bit 1: adds the carry.
template <typename T>
void multiplyAddWithCarry(Warp &warp, const Instruction &instruction,
                          LaneMask mask) {
  using U = std::make_unsigned_t<T>;
  const T *a = warp.lanes<const T>(instruction.sources[0]);
  const T *b = warp.lanes<const T>(instruction.sources[1]);
  const T *c = warp.lanes<const T>(instruction.sources[2]);
  T sums[warpSize];
  LaneMask carries = 0;
  for (unsigned lane = 0; lane < warpSize; ++lane) {
    U half =
        static_cast<U>(instruction.mode & 1 ? highProduct(a[lane], b[lane])
                                            : lowProduct(a[lane], b[lane]));
    U carryIn = instruction.mode & 2 ? warp.carry >> lane & 1 : 0;
    U sum = half + static_cast<U>(c[lane]);
    U total = sum + carryIn;
    sums[lane] = static_cast<T>(total);
    carries |= LaneMask{sum < half || total < sum} << lane;
  }
  storeLanes(warp.lanes<T>(instruction.result), sums, mask);
  if (instruction.flag)
    warp.carry = (warp.carry & ~mask) | (carries & mask);
}

void decodeCarry(Decoder &decoder, Type type, Half half, bool hasCarryIn) {
  Instruction &instruction = decoder.instruction;
  decoder.simpleOperands(type, 3);
  instruction.mode =
      static_cast<uint8_t>((half == Half::High) | hasCarryIn << 1);
  switch (type) {
  case Type::U32:
    instruction.execute = multiplyAddWithCarry<uint32_t>;
    break;
  case Type::S32:
    instruction.execute = multiplyAddWithCarry<int32_t>;
    break;
  case Type::U64:
    instruction.execute = multiplyAddWithCarry<uint64_t>;
    break;
  case Type::S64:
    instruction.execute = multiplyAddWithCarry<int64_t>;
    break;
  default:
    decoder.rejectType(type);
  }
}

} // namespace

void decodeIntegerProduct(Decoder &decoder, Type type) {
  Instruction &instruction = decoder.instruction;
  bool isSum = decoder.syntax.opcode != "mul";
  bool hasCarryIn = decoder.syntax.opcode == "madc";
  auto half = static_cast<Half>(decoder.expectOneOf({"lo", "hi", "wide"}));
  instruction.flag = decoder.take("cc");
  bool isSaturated = decoder.take("sat");
  if (!isInteger(type))
    decoder.rejectType(type);
  if (half == Half::Wide) {
    if (instruction.flag || hasCarryIn || isSaturated)
      decoder.reject("expected .wide alone");
    decodeWide(decoder, type, isSum);
    return;
  }
  if (instruction.flag || hasCarryIn) {
    decodeCarry(decoder, type, half, hasCarryIn);
    return;
  }
  decoder.simpleOperands(type, isSum ? 3 : 2);
  if (isSaturated) {
    if (!isSum || half != Half::High || type != Type::S32)
      decoder.reject("expected .sat of mad.hi.s32");
    instruction.execute = ternary<int32_t>([](int32_t a, int32_t b, int32_t c) {
      return static_cast<int32_t>(std::clamp<int64_t>(
          int64_t{highProduct(a, b)} + c, std::numeric_limits<int32_t>::min(),
          std::numeric_limits<int32_t>::max()));
    });
    return;
  }
  instruction.execute = forInteger(decoder, type, [&](auto zero) {
    using T = decltype(zero);
    bool isHigh = half == Half::High;
    if (isSum && isHigh)
      return ternary<T>(
          [](T a, T b, T c) { return wrappingSum(highProduct(a, b), c); });
    if (isSum)
      return ternary<T>(
          [](T a, T b, T c) { return wrappingSum(lowProduct(a, b), c); });
    if (isHigh)
      return binary<T>([](T a, T b) { return highProduct(a, b); });
    return binary<T>([](T a, T b) { return lowProduct(a, b); });
  });
}

namespace {

template <typename T>
int64_t low24(T value) {
  auto bits = static_cast<uint32_t>(value) << 8;
  return std::is_signed_v<T> ? static_cast<int32_t>(bits) >> 8
                             : int64_t{bits >> 8};
}

/// Products of 24 bits: their low 32 bits, or the 32 from bit 16 on.
template <bool isSum>
void decode24(Decoder &decoder) {
  bool isHigh = decoder.expectOneOf({"lo", "hi"});
  Type type = decoder.expectType();
  decoder.simpleOperands(type, isSum ? 3 : 2);
  if (type != Type::U32 && type != Type::S32)
    decoder.rejectType(type);
  decoder.instruction.execute = forInteger(decoder, type, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (isSum) {
      if (isHigh)
        return ternary<T>([](T a, T b, T c) {
          return wrappingSum(static_cast<T>(low24(a) * low24(b) >> 16), c);
        });
      return ternary<T>([](T a, T b, T c) {
        return wrappingSum(static_cast<T>(low24(a) * low24(b)), c);
      });
    } else {
      if (isHigh)
        return binary<T>(
            [](T a, T b) { return static_cast<T>(low24(a) * low24(b) >> 16); });
      return binary<T>(
          [](T a, T b) { return static_cast<T>(low24(a) * low24(b)); });
    }
  });
}

/// Four products of bytes, and c.
void decodeDot4(Decoder &decoder) {
  Type first = decoder.expectType();
  Type second = decoder.expectType();
  decoder.simpleOperands(Type::B32, 3);
  auto dot = [](auto a, auto b) {
    return laneWise<uint32_t, uint32_t, uint32_t, uint32_t>([](uint32_t x,
                                                               uint32_t y,
                                                               uint32_t sum) {
      for (unsigned i = 0; i < 32; i += 8)
        sum += static_cast<uint32_t>(int32_t{static_cast<decltype(a)>(x >> i)} *
                                     int32_t{static_cast<decltype(b)>(y >> i)});
      return sum;
    });
  };
  auto withSecond = [&](auto a) {
    return second == Type::S32 ? dot(a, int8_t()) : dot(a, uint8_t());
  };
  decoder.instruction.execute =
      first == Type::S32 ? withSecond(int8_t()) : withSecond(uint8_t());
}

void decodeMadc(Decoder &decoder) {
  decodeIntegerProduct(decoder, decoder.expectType());
}

constexpr Opcode opcodes[] = {
    {"madc", decodeMadc},
    {"mul24", decode24<false>},
    {"mad24", decode24<true>},
    {"dp4a", decodeDot4},
};

} // namespace

std::span<const Opcode> multiplyOpcodes() { return opcodes; }

} // namespace fsdp::emulator
