//===- Compare.cpp - setp, set, selp, slct --------------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "instructions/FloatFormats.h"
#include "instructions/KernelBuilder.h"
#include "instructions/Lanes.h"

namespace fsdp::emulator {

namespace {

/// In the order of the names below.
enum class Comparison : uint8_t {
  Equal,
  NotEqual,
  Less,
  LessEqual,
  Greater,
  GreaterEqual,
  // True for NaNs.
  EqualUnordered,
  NotEqualUnordered,
  LessUnordered,
  LessEqualUnordered,
  GreaterUnordered,
  GreaterEqualUnordered,
  Numbers,
  NotNumbers,
};

template <Comparison comparison, typename T>
bool compare(T a, T b) {
  bool isUnordered = a != a || b != b;
  switch (comparison) {
  case Comparison::Equal:
    return a == b;
  case Comparison::NotEqual:
    return a != b && !isUnordered;
  case Comparison::Less:
    return a < b;
  case Comparison::LessEqual:
    return a <= b;
  case Comparison::Greater:
    return a > b;
  case Comparison::GreaterEqual:
    return a >= b;
  case Comparison::EqualUnordered:
    return a == b || isUnordered;
  case Comparison::NotEqualUnordered:
    return a != b;
  case Comparison::LessUnordered:
    return !(a >= b);
  case Comparison::LessEqualUnordered:
    return !(a > b);
  case Comparison::GreaterUnordered:
    return !(a <= b);
  case Comparison::GreaterEqualUnordered:
    return !(a < b);
  case Comparison::Numbers:
    return !isUnordered;
  case Comparison::NotNumbers:
    return isUnordered;
  }
}

/// How a type's lanes become what the host compares.
template <typename T>
struct Plain {
  using Lane = T;
  static T load(T value, bool) { return value; }
};
struct Float32 {
  using Lane = float;
  static float load(float value, bool flushes) {
    return flushes ? flush(value) : value;
  }
};
template <bool isBrain, unsigned shift>
struct Narrow {
  using Lane = std::conditional_t<shift == 0, uint16_t, uint32_t>;
  static float load(uint32_t bits, bool) {
    auto half = static_cast<uint16_t>(bits >> shift);
    return isBrain ? floatOfBF16(half) : floatOfF16(half);
  }
};
/// The low number of a pair.
template <bool isBrain>
struct NarrowLow {
  using Lane = uint32_t;
  static float load(uint32_t bits, bool) {
    return Narrow<isBrain, 0>::load(bits & 0xffff, false);
  }
};

using Comparer = LaneMask (*)(const Warp &warp, const Instruction &instruction);

template <typename Loader, Comparison comparison>
LaneMask compareLanes(const Warp &warp, const Instruction &instruction) {
  using Lane = typename Loader::Lane;
  const auto *a = warp.lanes<const Lane>(instruction.sources[0]);
  const auto *b = warp.lanes<const Lane>(instruction.sources[1]);
  LaneMask bits = 0;
  for (unsigned lane = 0; lane < warpSize; ++lane)
    bits |=
        LaneMask{compare<comparison>(Loader::load(a[lane], instruction.flag),
                                     Loader::load(b[lane], instruction.flag))}
        << lane;
  return bits;
}

/// What a setp does with the third operand.
enum class Combination : uint8_t { None, And, Or, Xor };
constexpr uint8_t negatesOperand = 4;

LaneMask combine(const Warp &warp, const Instruction &instruction,
                 LaneMask bits) {
  auto combination = static_cast<Combination>(instruction.mode & 3);
  if (combination == Combination::None)
    return bits;
  LaneMask other = warp.predicate(instruction.sources[2]);
  if (instruction.mode & negatesOperand)
    other = ~other;
  switch (combination) {
  case Combination::None:
    return bits;
  case Combination::And:
    return bits & other;
  case Combination::Or:
    return bits | other;
  case Combination::Xor:
    return bits ^ other;
  }
  return bits;
}

template <typename Loader, Comparison comparison>
void setPredicates(Warp &warp, const Instruction &instruction, LaneMask mask) {
  LaneMask bits = compareLanes<Loader, comparison>(warp, instruction);
  LaneMask second = combine(warp, instruction, ~bits);
  if (instruction.result)
    warp.setPredicate(instruction.result, combine(warp, instruction, bits),
                      mask);
  if (instruction.secondResult)
    warp.setPredicate(instruction.secondResult, second, mask);
}

/// Two numbers in a register have a predicate each.
template <bool isBrain, Comparison comparison>
void setPairs(Warp &warp, const Instruction &instruction, LaneMask mask) {
  LaneMask low =
      compareLanes<NarrowLow<isBrain>, comparison>(warp, instruction);
  LaneMask high =
      compareLanes<Narrow<isBrain, 16>, comparison>(warp, instruction);
  warp.setPredicate(instruction.result, combine(warp, instruction, low), mask);
  warp.setPredicate(instruction.secondResult, combine(warp, instruction, high),
                    mask);
}

/// set: ones, or 1.0 where `immediate` is its bits.
template <typename Loader, Comparison comparison>
void setValues(Warp &warp, const Instruction &instruction, LaneMask mask) {
  LaneMask bits = combine(warp, instruction,
                          compareLanes<Loader, comparison>(warp, instruction));
  uint32_t values[warpSize];
  for (unsigned lane = 0; lane < warpSize; ++lane)
    values[lane] =
        bits >> lane & 1 ? static_cast<uint32_t>(instruction.immediate) : 0;
  storeLanes(warp.lanes<uint32_t>(instruction.result), values, mask);
}

enum class Form : uint8_t { Setp, Set };

template <typename Loader, Form form, Comparison comparison>
Instruction::Execute chooseForm() {
  if constexpr (form == Form::Setp)
    return setPredicates<Loader, comparison>;
  else
    return setValues<Loader, comparison>;
}

/// One function for each comparison. `choose` takes it as a constant.
template <typename Choose>
Instruction::Execute forComparison(unsigned comparison, Choose choose) {
  auto all = [&]<size_t... numbers>(std::index_sequence<numbers...>) {
    Instruction::Execute functions[] = {
        choose(std::integral_constant<Comparison, Comparison(numbers)>())...};
    return functions[comparison];
  };
  return all(std::make_index_sequence<14>());
}

template <typename Loader, Form form>
Instruction::Execute withLoader(unsigned comparison) {
  return forComparison(comparison, [](auto constant) {
    return chooseForm<Loader, form, decltype(constant)::value>();
  });
}

template <Form form>
Instruction::Execute chooseType(Decoder &decoder, Type type,
                                unsigned comparison) {
  switch (type) {
  case Type::F32:
    return withLoader<Float32, form>(comparison);
  case Type::F64:
    return withLoader<Plain<double>, form>(comparison);
  case Type::F16:
    return withLoader<Narrow<false, 0>, form>(comparison);
  case Type::BF16:
    return withLoader<Narrow<true, 0>, form>(comparison);
  default:
    return forInteger(decoder, type, [&](auto zero) {
      return withLoader<Plain<decltype(zero)>, form>(comparison);
    });
  }
}

unsigned takeComparison(Decoder &decoder) {
  // Unsigned integers have names of their own.
  static constexpr std::string_view ofUnsigned[] = {"lo", "ls", "hi", "hs"};
  for (unsigned i = 0; i < 4; ++i)
    if (decoder.take(ofUnsigned[i]))
      return static_cast<unsigned>(Comparison::Less) + i;
  return decoder.expectOneOf({"eq", "ne", "lt", "le", "gt", "ge", "equ", "neu",
                              "ltu", "leu", "gtu", "geu", "num", "nan"});
}

/// Comparison, combination, .ftz and sources of `type`.
unsigned decodeSources(Decoder &decoder, Type type) {
  Instruction &instruction = decoder.instruction;
  unsigned comparison = takeComparison(decoder);
  if (!isFloat(type) &&
      comparison >= static_cast<unsigned>(Comparison::EqualUnordered))
    decoder.reject("expected a comparison of integers");
  int combination = decoder.takeOneOf({"and", "or", "xor"}) + 1;
  instruction.mode = static_cast<uint8_t>(combination);
  if (type == Type::F32 || type == Type::F16 || type == Type::F16x2)
    instruction.flag = decoder.take("ftz");
  if (instruction.flag && type != Type::F32)
    decoder.reject("expected no .ftz in a comparison of f16");
  decoder.expectOperands(combination ? 4 : 3);
  instruction.sources[0] = decoder.source(1, type);
  instruction.sources[1] = decoder.source(2, type);
  if (combination) {
    const OperandSyntax &other = decoder.operand(3);
    instruction.sources[2] = decoder.predicate(other.name);
    if (other.isNegated)
      instruction.mode |= negatesOperand;
  }
  return comparison;
}

void decodeSetp(Decoder &decoder) {
  Instruction &instruction = decoder.instruction;
  Type type = decoder.expectType();
  unsigned comparison = decodeSources(decoder, type);
  const OperandSyntax &results = decoder.operand(0);
  instruction.result = decoder.result(results, Type::Pred);
  if (!results.second.empty() && results.second != "_")
    instruction.secondResult = decoder.predicate(results.second);
  if (type != Type::F16x2 && type != Type::BF16x2) {
    instruction.execute = chooseType<Form::Setp>(decoder, type, comparison);
    return;
  }
  if (!instruction.result || !instruction.secondResult)
    decoder.reject("expected two predicates, p|q");
  instruction.execute = forComparison(comparison, [&](auto constant) {
    constexpr Comparison value = decltype(constant)::value;
    return type == Type::F16x2 ? setPairs<false, value> : setPairs<true, value>;
  });
}

void decodeSet(Decoder &decoder) {
  Instruction &instruction = decoder.instruction;
  Type resultType = decoder.expectType();
  Type type = decoder.expectType();
  if (resultType != Type::U32 && resultType != Type::S32 &&
      resultType != Type::F32)
    decoder.rejectType(resultType);
  unsigned comparison = decodeSources(decoder, type);
  instruction.result = decoder.result(0, resultType);
  instruction.immediate = resultType == Type::F32 ? 0x3f800000 : 0xffffffff;
  instruction.execute = chooseType<Form::Set>(decoder, type, comparison);
}

template <typename T>
void selectLanes(Warp &warp, const Instruction &instruction, LaneMask mask) {
  const T *a = warp.lanes<const T>(instruction.sources[0]);
  const T *b = warp.lanes<const T>(instruction.sources[1]);
  LaneMask bits = warp.predicate(instruction.sources[2]);
  T values[warpSize];
  for (unsigned lane = 0; lane < warpSize; ++lane)
    values[lane] = bits >> lane & 1 ? a[lane] : b[lane];
  storeLanes(warp.lanes<T>(instruction.result), values, mask);
}

Instruction::Execute chooseSelect(Decoder &decoder, Type type) {
  switch (bitsOf(type)) {
  case 16:
    return selectLanes<uint16_t>;
  case 32:
    return selectLanes<uint32_t>;
  case 64:
    return selectLanes<uint64_t>;
  default:
    decoder.rejectType(type);
  }
}

void decodeSelp(Decoder &decoder) {
  Instruction &instruction = decoder.instruction;
  Type type = decoder.expectType();
  decoder.expectOperands(4);
  instruction.result = decoder.result(0, type);
  instruction.sources[0] = decoder.source(1, type);
  instruction.sources[1] = decoder.source(2, type);
  instruction.sources[2] = decoder.source(3, Type::Pred);
  instruction.execute = chooseSelect(decoder, type);
}

/// a where c >= 0, otherwise b; -0 is not below zero.
template <typename T, typename Condition>
void selectBySign(Warp &warp, const Instruction &instruction, LaneMask mask) {
  const T *a = warp.lanes<const T>(instruction.sources[0]);
  const T *b = warp.lanes<const T>(instruction.sources[1]);
  const auto *c = warp.lanes<const Condition>(instruction.sources[2]);
  T values[warpSize];
  for (unsigned lane = 0; lane < warpSize; ++lane) {
    Condition condition = c[lane];
    if constexpr (std::is_same_v<Condition, float>)
      condition = instruction.flag ? flush(condition) : condition;
    values[lane] = condition >= 0 ? a[lane] : b[lane];
  }
  storeLanes(warp.lanes<T>(instruction.result), values, mask);
}

void decodeSlct(Decoder &decoder) {
  Instruction &instruction = decoder.instruction;
  Type type = decoder.expectType();
  Type condition = decoder.expectType();
  instruction.flag = condition == Type::F32 && decoder.take("ftz");
  decoder.expectOperands(4);
  instruction.result = decoder.result(0, type);
  instruction.sources[0] = decoder.source(1, type);
  instruction.sources[1] = decoder.source(2, type);
  instruction.sources[2] = decoder.source(3, condition);
  auto choose = [&](auto zero) -> Instruction::Execute {
    using T = decltype(zero);
    if (condition == Type::S32)
      return selectBySign<T, int32_t>;
    if (condition == Type::F32)
      return selectBySign<T, float>;
    decoder.rejectType(condition);
  };
  switch (bitsOf(type)) {
  case 16:
    instruction.execute = choose(uint16_t());
    break;
  case 32:
    instruction.execute = choose(uint32_t());
    break;
  case 64:
    instruction.execute = choose(uint64_t());
    break;
  default:
    decoder.rejectType(type);
  }
}

constexpr Opcode opcodes[] = {
    {"setp", decodeSetp},
    {"set", decodeSet},
    {"selp", decodeSelp},
    {"slct", decodeSlct},
};

} // namespace

std::span<const Opcode> compareOpcodes() { return opcodes; }

} // namespace fsdp::emulator
