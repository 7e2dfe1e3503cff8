//===- Integers.cpp - Integers: sums, quotients, comparisons of two -------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "instructions/Arithmetic.h"
#include "instructions/Lanes.h"

#include <algorithm>
#include <bit>
#include <limits>

namespace fsdp::emulator {

namespace {

/// Sums of signed integers wrap around, as those of unsigned ones do.
template <typename T>
using Wrapping = std::make_unsigned_t<T>;

template <typename T>
T clampTo(int64_t value) {
  return static_cast<T>(std::clamp<int64_t>(
      value, std::numeric_limits<T>::min(), std::numeric_limits<T>::max()));
}

/// With carry in (`mode` 1), carry out (`flag`), of 32 or 64 bits. A
/// difference is the sum with the complement, and its borrow the missing carry.
template <typename T, bool isDifference>
void addWithCarry(Warp &warp, const Instruction &instruction, LaneMask mask) {
  const T *a = warp.lanes<const T>(instruction.sources[0]);
  const T *b = warp.lanes<const T>(instruction.sources[1]);
  T sums[warpSize];
  LaneMask carries = 0;
  for (unsigned lane = 0; lane < warpSize; ++lane) {
    T carryIn = instruction.mode ? warp.carry >> lane & 1 : 0;
    T second = b[lane], first = a[lane];
    if constexpr (isDifference) {
      sums[lane] = first - second - carryIn;
      carries |= LaneMask{first < second || (first == second && carryIn)}
                 << lane;
    } else {
      sums[lane] = first + second + carryIn;
      carries |= LaneMask{sums[lane] < first ||
                          (sums[lane] == first && (second || carryIn) &&
                           second + carryIn == 0)}
                 << lane;
    }
  }
  storeLanes(warp.lanes<T>(instruction.result), sums, mask);
  if (instruction.flag)
    warp.carry = (warp.carry & ~mask) | (carries & mask);
}

/// add, addc, sub, subc of integers.
template <bool isDifference>
void decodeSum(Decoder &decoder, Type type, bool hasCarryIn) {
  Instruction &instruction = decoder.instruction;
  bool isSaturated = decoder.take("sat");
  instruction.flag = decoder.take("cc");
  instruction.mode = hasCarryIn;
  decoder.simpleOperands(type, 2);
  if (instruction.flag || hasCarryIn) {
    if (isSaturated)
      decoder.reject("expected no .sat with a carry");
    if (bitsOf(type) == 32)
      instruction.execute = addWithCarry<uint32_t, isDifference>;
    else if (bitsOf(type) == 64)
      instruction.execute = addWithCarry<uint64_t, isDifference>;
    else
      decoder.rejectType(type);
    return;
  }
  if (isSaturated) {
    if (type != Type::S32)
      decoder.rejectType(type);
    instruction.execute = binary<int32_t>([](int32_t a, int32_t b) {
      return clampTo<int32_t>(isDifference ? int64_t{a} - b : int64_t{a} + b);
    });
    return;
  }
  instruction.execute = forInteger(decoder, type, [](auto zero) {
    using T = Wrapping<decltype(zero)>;
    return binary<T>(
        [](T a, T b) { return static_cast<T>(isDifference ? a - b : a + b); });
  });
}

/// The quotient of a division by zero is not defined; a device gives ones.
void decodeQuotient(Decoder &decoder, Type type) {
  decoder.simpleOperands(type, 2);
  decoder.instruction.execute = forInteger(decoder, type, [](auto zero) {
    using T = decltype(zero);
    return binary<T>([](T a, T b) -> T {
      if (b == 0)
        return static_cast<T>(-1);
      if (std::is_signed_v<T> && b == static_cast<T>(-1))
        return static_cast<T>(0 - static_cast<Wrapping<T>>(a));
      return static_cast<T>(a / b);
    });
  });
}

void decodeRemainder(Decoder &decoder) {
  Type type = decoder.expectType();
  decoder.simpleOperands(type, 2);
  decoder.instruction.execute = forInteger(decoder, type, [](auto zero) {
    using T = decltype(zero);
    return binary<T>([](T a, T b) -> T {
      if (b == 0)
        return a;
      if (std::is_signed_v<T> && b == static_cast<T>(-1))
        return 0;
      return static_cast<T>(a % b);
    });
  });
}

template <typename T, typename F>
Instruction::Execute packedPairs(F function) {
  return laneWise<uint32_t, uint32_t, uint32_t>([](uint32_t a,
                                                   uint32_t b) -> uint32_t {
    auto low = static_cast<uint16_t>(F{}(static_cast<T>(a), static_cast<T>(b)));
    auto high = static_cast<uint16_t>(
        F{}(static_cast<T>(a >> 16), static_cast<T>(b >> 16)));
    return low | uint32_t{high} << 16;
  });
}

/// min and max of integers.
template <bool isMax>
void decodeExtreme(Decoder &decoder, Type type) {
  decoder.simpleOperands(type, 2);
  bool isRelu = decoder.take("relu");
  if (isRelu) {
    if (type != Type::S32)
      decoder.rejectType(type);
    decoder.instruction.execute = binary<int32_t>([](int32_t a, int32_t b) {
      return std::max(isMax ? std::max(a, b) : std::min(a, b), 0);
    });
    return;
  }
  decoder.instruction.execute = forInteger(decoder, type, [](auto zero) {
    using T = decltype(zero);
    return binary<T>(
        [](T a, T b) { return isMax ? std::max(a, b) : std::min(a, b); });
  });
}

/// The types u16x2 and s16x2, which only these have.
bool decodePacked(Decoder &decoder, bool isMin, bool isMax) {
  int isSignedPair = decoder.takeOneOf({"u16x2", "s16x2"});
  if (isSignedPair < 0)
    return false;
  decoder.simpleOperands(Type::B32, 2);
  auto choose = [&](auto zero) {
    using T = decltype(zero);
    if (isMin)
      return packedPairs<T>([](T a, T b) { return std::min(a, b); });
    if (isMax)
      return packedPairs<T>([](T a, T b) { return std::max(a, b); });
    return packedPairs<T>([](T a, T b) { return a + b; });
  };
  decoder.instruction.execute =
      isSignedPair ? choose(int16_t()) : choose(uint16_t());
  return true;
}

template <bool isNegation>
void decodeSign(Decoder &decoder, Type type) {
  decoder.simpleOperands(type, 1);
  if (!isSigned(type))
    decoder.rejectType(type);
  decoder.instruction.execute = forInteger(decoder, type, [](auto zero) {
    using T = decltype(zero);
    return unary<T>([](T a) {
      bool isKept = !isNegation && a >= 0;
      return isKept ? a : static_cast<T>(0 - static_cast<Wrapping<T>>(a));
    });
  });
}

/// The sum of |a - b| and c.
void decodeSad(Decoder &decoder) {
  Type type = decoder.expectType();
  decoder.simpleOperands(type, 3);
  decoder.instruction.execute = forInteger(decoder, type, [](auto zero) {
    using T = decltype(zero);
    return ternary<T>([](T a, T b, T c) {
      auto wide = [](T x) { return static_cast<Wrapping<T>>(x); };
      auto difference = static_cast<Wrapping<T>>(a < b ? wide(b) - wide(a)
                                                       : wide(a) - wide(b));
      return static_cast<T>(difference + wide(c));
    });
  });
}

// These opcodes are of floats, too: FloatArithmetic.cpp and
// FloatFunctions.cpp.

void decodeAddc(Decoder &decoder) {
  decodeSum<false>(decoder, decoder.expectType(), true);
}
void decodeSubc(Decoder &decoder) {
  decodeSum<true>(decoder, decoder.expectType(), true);
}

constexpr Opcode opcodes[] = {
    {"addc", decodeAddc},
    {"subc", decodeSubc},
    {"rem", decodeRemainder},
    {"sad", decodeSad},
};

} // namespace

std::span<const Opcode> integerOpcodes() { return opcodes; }

void decodeIntegerOpcode(Decoder &decoder, Type type) {
  std::string_view opcode = decoder.syntax.opcode;
  if (opcode == "add")
    decodeSum<false>(decoder, type, false);
  else if (opcode == "sub")
    decodeSum<true>(decoder, type, false);
  else if (opcode == "div")
    decodeQuotient(decoder, type);
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

bool decodePackedIntegers(Decoder &decoder) {
  std::string_view opcode = decoder.syntax.opcode;
  return decodePacked(decoder, opcode == "min", opcode == "max");
}

} // namespace fsdp::emulator
