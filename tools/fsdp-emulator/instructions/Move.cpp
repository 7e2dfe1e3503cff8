//===- Move.cpp - mov, cvta, isspacep -------------------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "instructions/KernelBuilder.h"
#include "instructions/Lanes.h"

namespace fsdp::emulator {

namespace {

template <typename T>
Instruction::Execute copyLanes() {
  return unary<T>([](T a) { return a; });
}

Instruction::Execute chooseCopy(Decoder &decoder, Type type) {
  switch (bitsOf(type)) {
  case 16:
    return copyLanes<uint16_t>();
  case 32:
    return copyLanes<uint32_t>();
  case 64:
    return copyLanes<uint64_t>();
  default:
    decoder.rejectType(type);
  }
}

/// {a, b, ..} to one register that is as wide as all of them.
template <typename Whole, typename Part>
void pack(Warp &warp, const Instruction &instruction, LaneMask mask) {
  Whole values[warpSize] = {};
  for (unsigned i = 0; i < sizeof(Whole) / sizeof(Part); ++i) {
    const Part *part = warp.lanes<const Part>(instruction.vector[i]);
    for (unsigned lane = 0; lane < warpSize; ++lane)
      values[lane] |= static_cast<Whole>(part[lane]) << 8 * sizeof(Part) * i;
  }
  storeLanes(warp.lanes<Whole>(instruction.result), values, mask);
}

template <typename Whole, typename Part>
void unpack(Warp &warp, const Instruction &instruction, LaneMask mask) {
  // One of the parts may be the register that is taken apart.
  Whole whole[warpSize];
  storeLanes(whole, warp.lanes<Whole>(instruction.sources[0]), allLanes);
  for (unsigned i = 0; i < sizeof(Whole) / sizeof(Part); ++i) {
    if (!instruction.vector[i])
      continue;
    Part values[warpSize];
    for (unsigned lane = 0; lane < warpSize; ++lane)
      values[lane] = static_cast<Part>(whole[lane] >> 8 * sizeof(Part) * i);
    storeLanes(warp.lanes<Part>(instruction.vector[i]), values, mask);
  }
}

/// The type of one of `count` parts of `type`.
Type partType(Decoder &decoder, Type type, size_t count) {
  unsigned bits = count ? bitsOf(type) / static_cast<unsigned>(count) : 0;
  if (count == 2 && bits == 16)
    return Type::B16;
  if (count == 2 && bits == 32)
    return Type::B32;
  if (count == 4 && bits == 16)
    return Type::B16;
  decoder.reject("expected two halves or four quarters of the register");
}

void decodeParts(Decoder &decoder, Type type, bool isPack) {
  Instruction &instruction = decoder.instruction;
  const auto &parts = decoder.operand(isPack ? 1 : 0).elements;
  Type part = partType(decoder, type, parts.size());
  if (isPack)
    instruction.result = decoder.result(0, type);
  else
    instruction.sources[0] = decoder.source(1, type);
  for (size_t i = 0; i < parts.size(); ++i)
    instruction.vector[i] = isPack ? decoder.source(parts[i], part)
                                   : decoder.result(parts[i], part);
  if (type == Type::B32)
    instruction.execute =
        isPack ? pack<uint32_t, uint16_t> : unpack<uint32_t, uint16_t>;
  else if (part == Type::B32)
    instruction.execute =
        isPack ? pack<uint64_t, uint32_t> : unpack<uint64_t, uint32_t>;
  else
    instruction.execute =
        isPack ? pack<uint64_t, uint16_t> : unpack<uint64_t, uint16_t>;
}

void decodeMov(Decoder &decoder) {
  Instruction &instruction = decoder.instruction;
  Type type = decoder.expectType();
  decoder.expectOperands(2);
  auto isList = [&](size_t index) {
    return decoder.operand(index).form == OperandSyntax::Form::List;
  };
  if (isList(0) || isList(1)) {
    if (type != Type::B32 && type != Type::B64)
      decoder.rejectType(type);
    decodeParts(decoder, type, isList(1));
    return;
  }
  decoder.simpleOperands(type, 1);
  if (type == Type::Pred)
    instruction.execute = [](Warp &warp, const Instruction &i, LaneMask mask) {
      warp.setPredicate(i.result, warp.predicate(i.sources[0]), mask);
    };
  else
    instruction.execute = chooseCopy(decoder, type);
}

/// The bits of generic addresses that say of which memory they are.
uint64_t tagOf(Space space) {
  switch (space) {
  case Space::Shared:
    return sharedTag;
  case Space::Local:
    return localTag;
  case Space::Parameter:
    return parameterTag;
  default:
    return 0;
  }
}

Space takeSpace(Decoder &decoder) {
  static constexpr Space spaces[] = {
      Space::Global, Space::Constant,  Space::Shared,   Space::Shared,
      Space::Local,  Space::Parameter, Space::Parameter};
  return spaces[decoder.expectOneOf({"global", "const", "shared", "shared::cta",
                                     "local", "param", "param::entry"})];
}

void decodeCvta(Decoder &decoder) {
  Instruction &instruction = decoder.instruction;
  bool isToSpace = decoder.take("to");
  uint64_t tag = tagOf(takeSpace(decoder));
  Type type = decoder.expectType();
  if (type != Type::U64)
    decoder.rejectType(type);
  decoder.simpleOperands(type, 1);
  instruction.sources[1] = decoder.builder.constant(isToSpace ? ~tag : tag, 8);
  if (isToSpace)
    instruction.execute =
        binary<uint64_t>([](uint64_t a, uint64_t b) { return a & b; });
  else
    instruction.execute =
        binary<uint64_t>([](uint64_t a, uint64_t b) { return a | b; });
}

void decodeIsspacep(Decoder &decoder) {
  Instruction &instruction = decoder.instruction;
  instruction.immediate = static_cast<int64_t>(tagOf(takeSpace(decoder)));
  decoder.expectOperands(2);
  instruction.result = decoder.result(0, Type::Pred);
  instruction.sources[0] = decoder.source(1, Type::B64);
  instruction.execute = [](Warp &warp, const Instruction &i, LaneMask mask) {
    const auto *addresses = warp.lanes<const uint64_t>(i.sources[0]);
    constexpr uint64_t tags = sharedTag | localTag | parameterTag;
    LaneMask bits = 0;
    for (unsigned lane = 0; lane < warpSize; ++lane)
      bits |= LaneMask{(addresses[lane] & tags) ==
                       static_cast<uint64_t>(i.immediate)}
              << lane;
    warp.setPredicate(i.result, bits, mask);
  };
}

constexpr Opcode opcodes[] = {
    {"mov", decodeMov},
    {"cvta", decodeCvta},
    {"isspacep", decodeIsspacep},
};

} // namespace

std::span<const Opcode> moveOpcodes() { return opcodes; }

} // namespace fsdp::emulator
