//===- Bits.cpp - Bits of integers: logic, shifts, fields, permutations ---===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "instructions/KernelBuilder.h"
#include "instructions/Lanes.h"

#include <algorithm>
#include <bit>

namespace fsdp::emulator {

namespace {

uint32_t reverseBits(uint32_t value) {
  value = (value >> 1 & 0x55555555) | (value & 0x55555555) << 1;
  value = (value >> 2 & 0x33333333) | (value & 0x33333333) << 2;
  value = (value >> 4 & 0x0f0f0f0f) | (value & 0x0f0f0f0f) << 4;
  return __builtin_bswap32(value);
}

uint64_t reverseBits(uint64_t value) {
  return uint64_t{reverseBits(static_cast<uint32_t>(value))} << 32 |
         reverseBits(static_cast<uint32_t>(value >> 32));
}

/// Of bits, whatever the type says of their sign.
template <typename Make>
Instruction::Execute forBits(Decoder &decoder, Type type, Make make) {
  if (!isUntyped(type))
    decoder.rejectType(type);
  return forInteger(decoder, type, make);
}

struct And {
  template <typename T>
  T operator()(T a, T b) const {
    return a & b;
  }
};
struct Or {
  template <typename T>
  T operator()(T a, T b) const {
    return a | b;
  }
};
struct Xor {
  template <typename T>
  T operator()(T a, T b) const {
    return a ^ b;
  }
};

template <typename F>
void combinePredicates(Warp &warp, const Instruction &instruction,
                       LaneMask mask) {
  warp.setPredicate(instruction.result,
                    F{}(warp.predicate(instruction.sources[0]),
                        warp.predicate(instruction.sources[1])),
                    mask);
}

template <typename F>
void decodeLogic(Decoder &decoder) {
  Type type = decoder.expectType();
  decoder.simpleOperands(type, 2);
  if (type == Type::Pred)
    decoder.instruction.execute = combinePredicates<F>;
  else
    decoder.instruction.execute = forBits(decoder, type, [](auto zero) {
      return binary<decltype(zero)>(
          [](auto a, auto b) { return static_cast<decltype(a)>(F{}(a, b)); });
    });
}

void decodeNot(Decoder &decoder) {
  Type type = decoder.expectType();
  decoder.simpleOperands(type, 1);
  if (type == Type::Pred)
    decoder.instruction.execute = [](Warp &warp, const Instruction &i,
                                     LaneMask mask) {
      warp.setPredicate(i.result, ~warp.predicate(i.sources[0]), mask);
    };
  else
    decoder.instruction.execute = forBits(decoder, type, [](auto zero) {
      return unary<decltype(zero)>(
          [](auto a) { return static_cast<decltype(a)>(~a); });
    });
}

/// 1 of zero, 0 of all else.
void decodeCnot(Decoder &decoder) {
  Type type = decoder.expectType();
  decoder.simpleOperands(type, 1);
  decoder.instruction.execute = forBits(decoder, type, [](auto zero) {
    return unary<decltype(zero)>(
        [](auto a) { return static_cast<decltype(a)>(a == 0); });
  });
}

/// Bit i of the table is the result where the bits of a, b and c are those of
/// the number i.
void decodeLop3(Decoder &decoder) {
  if (decoder.expectType() != Type::B32)
    decoder.reject("expected lop3.b32");
  decoder.expectOperands(5);
  Instruction &instruction = decoder.instruction;
  instruction.result = decoder.result(0, Type::B32);
  for (size_t i = 0; i < 3; ++i)
    instruction.sources[i] = decoder.source(i + 1, Type::B32);
  instruction.immediate = decoder.immediate(4);
  instruction.execute = [](Warp &warp, const Instruction &i, LaneMask mask) {
    const auto *a = warp.lanes<uint32_t>(i.sources[0]);
    const auto *b = warp.lanes<uint32_t>(i.sources[1]);
    const auto *c = warp.lanes<uint32_t>(i.sources[2]);
    uint32_t values[warpSize] = {};
    for (unsigned row = 0; row < 8; ++row) {
      if (!(i.immediate >> row & 1))
        continue;
      uint32_t flipA = row & 4 ? 0 : ~0u, flipB = row & 2 ? 0 : ~0u,
               flipC = row & 1 ? 0 : ~0u;
      for (unsigned lane = 0; lane < warpSize; ++lane)
        values[lane] |=
            (a[lane] ^ flipA) & (b[lane] ^ flipB) & (c[lane] ^ flipC);
    }
    storeLanes(warp.lanes<uint32_t>(i.result), values, mask);
  };
}

/// Amounts have 32 bits; those of the width or more shift all bits out.
template <bool isLeft>
void decodeShift(Decoder &decoder) {
  Type type = decoder.expectType();
  if (isLeft && !isUntyped(type))
    decoder.rejectType(type);
  decoder.expectOperands(3);
  Instruction &instruction = decoder.instruction;
  instruction.result = decoder.result(0, type);
  instruction.sources[0] = decoder.source(1, type);
  instruction.sources[1] = decoder.source(2, Type::B32);
  instruction.execute = forInteger(decoder, type, [](auto zero) {
    using T = decltype(zero);
    return laneWise<T, T, uint32_t>([](T a, uint32_t amount) {
      constexpr uint32_t bits = 8 * sizeof(T);
      if constexpr (isLeft) {
        auto shifted = static_cast<uint64_t>(a) << (amount & 63);
        return static_cast<T>(amount < bits ? shifted : 0);
      } else {
        bool isOut = amount >= bits;
        auto shifted = static_cast<T>(a >> (isOut ? bits - 1 : amount));
        return static_cast<T>(isOut && std::is_unsigned_v<T> ? 0 : shifted);
      }
    });
  });
}

/// 32 bits of b:a, from a place on.
void decodeFunnelShift(Decoder &decoder) {
  bool isRight = decoder.expectOneOf({"l", "r"});
  bool isClamped = decoder.expectOneOf({"wrap", "clamp"});
  Type type = decoder.expectType();
  if (type != Type::B32)
    decoder.rejectType(type);
  decoder.simpleOperands(type, 3);
  auto choose = [](auto right, auto clamps) {
    return ternary<uint32_t>([](uint32_t a, uint32_t b, uint32_t c) {
      uint64_t pair = uint64_t{b} << 32 | a;
      uint32_t amount = decltype(clamps)::value ? std::min(c, 32u) : c & 31;
      return static_cast<uint32_t>(
          decltype(right)::value ? pair >> amount : pair << amount >> 32);
    });
  };
  auto withDirection = [&](auto right) {
    return isClamped ? choose(right, std::true_type())
                     : choose(right, std::false_type());
  };
  decoder.instruction.execute = isRight ? withDirection(std::true_type())
                                        : withDirection(std::false_type());
}

uint32_t selectBytes(uint32_t a, uint32_t b, uint32_t selectors) {
  uint64_t bytes = uint64_t{b} << 32 | a;
  uint32_t result = 0;
  for (unsigned i = 0; i < 4; ++i) {
    uint32_t selector = selectors >> 4 * i & 15;
    uint32_t byte = bytes >> 8 * (selector & 7) & 255;
    if (selector & 8)
      byte = byte & 128 ? 255 : 0;
    result |= byte << 8 * i;
  }
  return result;
}

/// The selectors that a mode of prmt makes of the low bits of c.
template <unsigned mode>
uint32_t selectorsOf(uint32_t c) {
  c &= 3;
  static constexpr uint16_t forward[] = {0x3210, 0x4321, 0x5432, 0x6543};
  static constexpr uint16_t backward[] = {0x5670, 0x6701, 0x7012, 0x0123};
  static constexpr uint16_t replicate[] = {0x0000, 0x1111, 0x2222, 0x3333};
  static constexpr uint16_t clampLeft[] = {0x3210, 0x3211, 0x3222, 0x3333};
  static constexpr uint16_t clampRight[] = {0x0000, 0x1110, 0x2210, 0x3210};
  static constexpr uint16_t halves[] = {0x1010, 0x3232, 0x1010, 0x3232};
  static constexpr const uint16_t *tables[] = {forward,   backward,   replicate,
                                               clampLeft, clampRight, halves};
  return tables[mode][c];
}

void decodePermute(Decoder &decoder) {
  Type type = decoder.expectType();
  if (type != Type::B32)
    decoder.rejectType(type);
  int mode = decoder.takeOneOf({"f4e", "b4e", "rc8", "ecl", "ecr", "rc16"});
  decoder.simpleOperands(type, 3);
  auto withMode = [](auto number) {
    return ternary<uint32_t>([](uint32_t a, uint32_t b, uint32_t c) {
      return selectBytes(a, b, selectorsOf<decltype(number)::value>(c));
    });
  };
  using std::integral_constant;
  Instruction::Execute modes[] = {withMode(integral_constant<unsigned, 0>()),
                                  withMode(integral_constant<unsigned, 1>()),
                                  withMode(integral_constant<unsigned, 2>()),
                                  withMode(integral_constant<unsigned, 3>()),
                                  withMode(integral_constant<unsigned, 4>()),
                                  withMode(integral_constant<unsigned, 5>())};
  decoder.instruction.execute =
      mode < 0 ? ternary<uint32_t>([](uint32_t a, uint32_t b, uint32_t c) {
        return selectBytes(a, b, c);
      })
               : modes[mode];
}

/// popc, clz, brev: of 32 or 64 bits; the first two give 32.
void decodeCount(Decoder &decoder, bool isPopulation) {
  Type type = decoder.expectType();
  decoder.expectOperands(2);
  Instruction &instruction = decoder.instruction;
  instruction.result = decoder.result(0, Type::B32);
  instruction.sources[0] = decoder.source(1, type);
  auto choose = [&](auto zero) {
    using T = decltype(zero);
    if (isPopulation)
      return laneWise<uint32_t, T>(
          [](T a) { return static_cast<uint32_t>(std::popcount(a)); });
    return laneWise<uint32_t, T>(
        [](T a) { return static_cast<uint32_t>(std::countl_zero(a)); });
  };
  if (type == Type::B32)
    instruction.execute = choose(uint32_t());
  else if (type == Type::B64)
    instruction.execute = choose(uint64_t());
  else
    decoder.rejectType(type);
}

void decodePopc(Decoder &decoder) { decodeCount(decoder, true); }
void decodeClz(Decoder &decoder) { decodeCount(decoder, false); }

void decodeBrev(Decoder &decoder) {
  Type type = decoder.expectType();
  decoder.simpleOperands(type, 1);
  if (type == Type::B32)
    decoder.instruction.execute =
        unary<uint32_t>([](uint32_t a) { return reverseBits(a); });
  else if (type == Type::B64)
    decoder.instruction.execute =
        unary<uint64_t>([](uint64_t a) { return reverseBits(a); });
  else
    decoder.rejectType(type);
}

/// The place of the highest bit that is not the sign, or how far it is from
/// the top; ones if there is none.
void decodeBfind(Decoder &decoder) {
  Instruction &instruction = decoder.instruction;
  bool givesShift = decoder.take("shiftamt");
  Type type = decoder.expectType();
  decoder.expectOperands(2);
  instruction.result = decoder.result(0, Type::B32);
  instruction.sources[0] = decoder.source(1, type);
  instruction.execute = forInteger(decoder, type, [&](auto zero) {
    using T = decltype(zero);
    auto choose = [](auto shift) {
      return laneWise<uint32_t, T>([](T a) -> uint32_t {
        using U = std::make_unsigned_t<T>;
        constexpr unsigned top = 8 * sizeof(T) - 1;
        auto bits = static_cast<U>(std::is_signed_v<T> && a < 0 ? ~a : a);
        if (bits == 0)
          return ~0u;
        auto zeros = static_cast<unsigned>(std::countl_zero(bits));
        return decltype(shift)::value ? zeros : top - zeros;
      });
    };
    return givesShift ? choose(std::true_type()) : choose(std::false_type());
  });
}

/// `length` bits from `position` on; those above the value are its sign, or
/// zeros.
template <typename T>
T extractField(T a, uint32_t b, uint32_t c) {
  using U = std::make_unsigned_t<T>;
  constexpr uint32_t bits = 8 * sizeof(T);
  uint32_t position = b & 255, length = c & 255;
  bool isNegative = false;
  if (std::is_signed_v<T> && length > 0) {
    uint32_t last = std::min(position + length - 1, bits - 1);
    isNegative = static_cast<U>(a) >> last & 1;
  }
  uint32_t inside = position < bits ? std::min(length, bits - position) : 0;
  U field = inside ? static_cast<U>(a) >> position : 0;
  U ones = inside == bits ? ~U{0} : (U{1} << inside) - 1;
  field &= ones;
  return static_cast<T>(isNegative ? field | ~ones : field);
}

void decodeExtract(Decoder &decoder) {
  Type type = decoder.expectType();
  decoder.expectOperands(4);
  Instruction &instruction = decoder.instruction;
  instruction.result = decoder.result(0, type);
  instruction.sources[0] = decoder.source(1, type);
  instruction.sources[1] = decoder.source(2, Type::B32);
  instruction.sources[2] = decoder.source(3, Type::B32);
  if (!isInteger(type) || bitsOf(type) < 32)
    decoder.rejectType(type);
  instruction.execute = forInteger(decoder, type, [](auto zero) {
    using T = decltype(zero);
    return laneWise<T, T, uint32_t, uint32_t>(
        [](T a, uint32_t b, uint32_t c) { return extractField(a, b, c); });
  });
}

template <typename T>
T insertField(T a, T b, uint32_t c, uint32_t d) {
  constexpr uint32_t bits = 8 * sizeof(T);
  uint32_t position = c & 255, length = d & 255;
  if (position >= bits || length == 0)
    return b;
  uint32_t inside = std::min(length, bits - position);
  T ones = (inside == bits ? ~T{0} : (T{1} << inside) - 1) << position;
  return (b & ~ones) | (a << position & ones);
}

void decodeInsert(Decoder &decoder) {
  Type type = decoder.expectType();
  decoder.expectOperands(5);
  Instruction &instruction = decoder.instruction;
  instruction.result = decoder.result(0, type);
  instruction.sources[0] = decoder.source(1, type);
  instruction.sources[1] = decoder.source(2, type);
  instruction.sources[2] = decoder.source(3, Type::B32);
  instruction.sources[3] = decoder.source(4, Type::B32);
  auto choose = [](auto zero) {
    using T = decltype(zero);
    return laneWise<T, T, T, uint32_t, uint32_t>(
        [](T a, T b, uint32_t c, uint32_t d) {
          return insertField(a, b, c, d);
        });
  };
  if (type == Type::B32)
    instruction.execute = choose(uint32_t());
  else if (type == Type::B64)
    instruction.execute = choose(uint64_t());
  else
    decoder.rejectType(type);
}

/// A mask of b bits from bit a on.
void decodeMask(Decoder &decoder) {
  bool wraps = decoder.expectOneOf({"clamp", "wrap"});
  decoder.simpleOperands(decoder.expectType(), 2);
  if (wraps)
    decoder.instruction.execute = binary<uint32_t>([](uint32_t a, uint32_t b) {
      return ((1u << (b & 31)) - 1) << (a & 31);
    });
  else
    decoder.instruction.execute = binary<uint32_t>([](uint32_t a, uint32_t b) {
      uint32_t ones = b >= 32 ? ~0u : (1u << b) - 1;
      return a >= 32 ? 0 : ones << a;
    });
}

constexpr Opcode opcodes[] = {
    {"and", decodeLogic<And>},  {"or", decodeLogic<Or>},
    {"xor", decodeLogic<Xor>},  {"not", decodeNot},
    {"cnot", decodeCnot},       {"lop3", decodeLop3},
    {"shl", decodeShift<true>}, {"shr", decodeShift<false>},
    {"shf", decodeFunnelShift}, {"prmt", decodePermute},
    {"popc", decodePopc},       {"clz", decodeClz},
    {"brev", decodeBrev},       {"bfind", decodeBfind},
    {"bfe", decodeExtract},     {"bfi", decodeInsert},
    {"bmsk", decodeMask},
};

} // namespace

std::span<const Opcode> bitOpcodes() { return opcodes; }

} // namespace fsdp::emulator
