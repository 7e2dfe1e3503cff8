//===- WarpInstructions.cpp - What lanes of a warp execute together -------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "instructions/WarpInstructions.h"

#include "instructions/KernelBuilder.h"
#include "instructions/Lanes.h"

#include <algorithm>

namespace fsdp::emulator {

namespace {

/// Lanes that name each other in their masks have to execute the instruction
/// together.
void checkMembers(Warp &warp, const Instruction &instruction, LaneMask mask) {
  const auto *masks = warp.lanes<const LaneMask>(instruction.members);
  for (LaneMask left = mask; left; left &= left - 1) {
    auto lane = static_cast<unsigned>(std::countr_zero(left));
    LaneMask named = masks[lane];
    if (!(named >> lane & 1))
      fail(warp, instruction, lane, FaultCode::LaunchFailed,
           "expected a member mask that names lane " + std::to_string(lane) +
               ", which executes it, got " + hexOf(named));
    LaneMask missing = named & ~mask & warp.alive;
    if (missing)
      fail(warp, instruction, lane, FaultCode::LaunchFailed,
           "expected all lanes of member mask " + hexOf(named) + ", got " +
               hexOf(mask));
    LaneMask gone = named & ~warp.alive;
    if (gone)
      fail(warp, instruction, lane, FaultCode::LaunchFailed,
           "expected a member mask of lanes that have not exited, got " +
               hexOf(named) + " where " + hexOf(warp.alive) + " are left");
    auto first = static_cast<unsigned>(std::countr_zero(named));
    if (masks[first] != named)
      fail(warp, instruction, lane, FaultCode::LaunchFailed,
           "expected one member mask for all lanes, got " +
               hexOf(masks[first]) + " and " + hexOf(named));
  }
}

enum class Shuffle : uint8_t { Up, Down, Butterfly, Index };

/// The lane that `lane` reads, as PTX computes it from b and c, and whether it
/// is inside of the segment.
unsigned sourceLane(Shuffle shuffle, unsigned lane, uint32_t b, uint32_t c,
                    bool &isInside) {
  uint32_t segment = c >> 8 & 31, clamp = c & 31;
  auto offset = static_cast<int>(b & 31), own = static_cast<int>(lane);
  auto last = static_cast<int>((lane & segment) | (clamp & ~segment));
  auto first = static_cast<int>(lane & segment);
  int other = own;
  switch (shuffle) {
  case Shuffle::Up:
    other = own - offset;
    isInside = other >= last;
    break;
  case Shuffle::Down:
    other = own + offset;
    isInside = other <= last;
    break;
  case Shuffle::Butterfly:
    other = own ^ offset;
    isInside = other <= last;
    break;
  case Shuffle::Index:
    other = first | (offset & static_cast<int>(~segment));
    isInside = other <= last;
    break;
  }
  return isInside ? static_cast<unsigned>(other) : lane;
}

void shuffle(Warp &warp, const Instruction &instruction, LaneMask mask) {
  checkMembers(warp, instruction, mask);
  const auto *a = warp.lanes<const uint32_t>(instruction.sources[0]);
  const auto *b = warp.lanes<const uint32_t>(instruction.sources[1]);
  const auto *c = warp.lanes<const uint32_t>(instruction.sources[2]);
  uint32_t values[warpSize];
  LaneMask inside = 0;
  for (unsigned lane = 0; lane < warpSize; ++lane) {
    bool isInside = false;
    unsigned other = sourceLane(static_cast<Shuffle>(instruction.mode), lane,
                                b[lane], c[lane], isInside);
    if ((mask >> lane & 1) && !(mask >> other & 1))
      fail(warp, instruction, lane, FaultCode::LaunchFailed,
           "expected a shuffle from an active lane, got lane " +
               std::to_string(other));
    values[lane] = a[other];
    inside |= LaneMask{isInside} << lane;
  }
  storeLanes(warp.lanes<uint32_t>(instruction.result), values, mask);
  if (instruction.secondResult)
    warp.setPredicate(instruction.secondResult, inside, mask);
}

/// Operand `index` is the member mask.
void synchronizes(Decoder &decoder, size_t index) {
  decoder.instruction.flow = Flow::Synchronize;
  decoder.instruction.members = decoder.source(index, Type::B32);
}

void expectSync(Decoder &decoder) {
  if (!decoder.take("sync"))
    decoder.reject("expected .sync");
}

void decodeShuffle(Decoder &decoder) {
  Instruction &instruction = decoder.instruction;
  expectSync(decoder);
  instruction.mode =
      static_cast<uint8_t>(decoder.expectOneOf({"up", "down", "bfly", "idx"}));
  Type type = decoder.expectType();
  if (type != Type::B32)
    decoder.rejectType(type);
  decoder.expectOperands(5);
  instruction.result = decoder.result(0, type);
  std::string_view second = decoder.operand(0).second;
  if (!second.empty() && second != "_")
    instruction.secondResult = decoder.predicate(second);
  for (size_t i = 0; i < 3; ++i)
    instruction.sources[i] = decoder.source(i + 1, type);
  synchronizes(decoder, 4);
  instruction.execute = shuffle;
}

enum class Vote : uint8_t { All, Any, Uniform, Ballot };

void vote(Warp &warp, const Instruction &instruction, LaneMask mask) {
  checkMembers(warp, instruction, mask);
  const auto *members = warp.lanes<const LaneMask>(instruction.members);
  LaneMask bits = warp.predicate(instruction.sources[0]);
  if (instruction.flag)
    bits = ~bits;
  auto kind = static_cast<Vote>(instruction.mode);
  uint32_t ballots[warpSize];
  LaneMask answers = 0;
  for (unsigned lane = 0; lane < warpSize; ++lane) {
    LaneMask voting = members[lane];
    bool areAll = (bits & voting) == voting, areAny = bits & voting;
    bool answer = kind == Vote::All   ? areAll
                  : kind == Vote::Any ? areAny
                                      : areAll || !areAny;
    answers |= LaneMask{answer} << lane;
    ballots[lane] = bits & voting;
  }
  if (kind == Vote::Ballot)
    storeLanes(warp.lanes<uint32_t>(instruction.result), ballots, mask);
  else
    warp.setPredicate(instruction.result, answers, mask);
}

void decodeVote(Decoder &decoder) {
  Instruction &instruction = decoder.instruction;
  expectSync(decoder);
  instruction.mode = static_cast<uint8_t>(
      decoder.expectOneOf({"all", "any", "uni", "ballot"}));
  Type type = decoder.expectType();
  bool isBallot = static_cast<Vote>(instruction.mode) == Vote::Ballot;
  if (type != (isBallot ? Type::B32 : Type::Pred))
    decoder.rejectType(type);
  decoder.expectOperands(3);
  instruction.result = decoder.result(0, type);
  OperandSyntax bits = decoder.operand(1);
  instruction.flag = bits.isNegated;
  bits.isNegated = false;
  instruction.sources[0] = decoder.source(bits, Type::Pred);
  synchronizes(decoder, 2);
  instruction.execute = vote;
}

void decodeActiveMask(Decoder &decoder) {
  Type type = decoder.expectType();
  decoder.expectOperands(1);
  decoder.instruction.result = decoder.result(0, type);
  if (type != Type::B32)
    decoder.rejectType(type);
  decoder.instruction.execute = [](Warp &warp, const Instruction &i,
                                   LaneMask mask) {
    uint32_t values[warpSize];
    std::fill(std::begin(values), std::end(values), mask);
    storeLanes(warp.lanes<uint32_t>(i.result), values, mask);
  };
}

/// match: which lanes have the same value; all of them, or none.
template <typename T>
void match(Warp &warp, const Instruction &instruction, LaneMask mask) {
  checkMembers(warp, instruction, mask);
  const T *a = warp.lanes<const T>(instruction.sources[0]);
  const auto *members = warp.lanes<const LaneMask>(instruction.members);
  uint32_t values[warpSize] = {};
  LaneMask areAll = 0;
  for (unsigned lane = 0; lane < warpSize; ++lane) {
    for (unsigned other = 0; other < warpSize; ++other)
      values[lane] |= LaneMask{a[lane] == a[other]} << other;
    values[lane] &= members[lane];
    bool isAll = values[lane] == members[lane];
    areAll |= LaneMask{isAll} << lane;
    if (instruction.flag && !isAll)
      values[lane] = 0;
  }
  storeLanes(warp.lanes<uint32_t>(instruction.result), values, mask);
  if (instruction.secondResult)
    warp.setPredicate(instruction.secondResult, areAll, mask);
}

void decodeMatch(Decoder &decoder) {
  Instruction &instruction = decoder.instruction;
  instruction.flag = decoder.expectOneOf({"any", "all"});
  expectSync(decoder);
  Type type = decoder.expectType();
  decoder.expectOperands(3);
  instruction.result = decoder.result(0, Type::B32);
  std::string_view second = decoder.operand(0).second;
  if (!second.empty() && second != "_")
    instruction.secondResult = decoder.predicate(second);
  instruction.sources[0] = decoder.source(1, type);
  synchronizes(decoder, 2);
  if (type == Type::B32)
    instruction.execute = match<uint32_t>;
  else if (type == Type::B64)
    instruction.execute = match<uint64_t>;
  else
    decoder.rejectType(type);
}

enum class Reduction : uint8_t { Add, Min, Max, And, Or, Xor };

template <typename T>
T reduceTwo(Reduction reduction, T a, T b) {
  switch (reduction) {
  case Reduction::Add:
    return static_cast<T>(static_cast<uint32_t>(a) + static_cast<uint32_t>(b));
  case Reduction::Min:
    return std::min(a, b);
  case Reduction::Max:
    return std::max(a, b);
  case Reduction::And:
    return a & b;
  case Reduction::Or:
    return a | b;
  case Reduction::Xor:
    return a ^ b;
  }
  return a;
}

template <typename T>
void reduce(Warp &warp, const Instruction &instruction, LaneMask mask) {
  checkMembers(warp, instruction, mask);
  const T *a = warp.lanes<const T>(instruction.sources[0]);
  const auto *members = warp.lanes<const LaneMask>(instruction.members);
  T values[warpSize] = {};
  for (LaneMask left = mask; left; left &= left - 1) {
    auto lane = static_cast<unsigned>(std::countr_zero(left));
    LaneMask others = members[lane];
    T sum = a[std::countr_zero(others)];
    for (others &= others - 1; others; others &= others - 1)
      sum = reduceTwo(static_cast<Reduction>(instruction.mode), sum,
                      a[std::countr_zero(others)]);
    values[lane] = sum;
  }
  storeLanes(warp.lanes<T>(instruction.result), values, mask);
}

void decodeRedux(Decoder &decoder) {
  Instruction &instruction = decoder.instruction;
  expectSync(decoder);
  instruction.mode = static_cast<uint8_t>(
      decoder.expectOneOf({"add", "min", "max", "and", "or", "xor"}));
  Type type = decoder.expectType();
  decoder.expectOperands(3);
  instruction.result = decoder.result(0, type);
  instruction.sources[0] = decoder.source(1, type);
  synchronizes(decoder, 2);
  if (type == Type::S32)
    instruction.execute = reduce<int32_t>;
  else if (type == Type::U32 || type == Type::B32)
    instruction.execute = reduce<uint32_t>;
  else
    decoder.rejectType(type);
}

/// One lane of those that are named; a device may take any.
void elect(Warp &warp, const Instruction &instruction, LaneMask mask) {
  checkMembers(warp, instruction, mask);
  const auto *members = warp.lanes<const LaneMask>(instruction.members);
  uint32_t leaders[warpSize];
  LaneMask elected = 0;
  for (unsigned lane = 0; lane < warpSize; ++lane) {
    leaders[lane] = static_cast<uint32_t>(std::countr_zero(members[lane]));
    elected |= LaneMask{leaders[lane] == lane} << lane;
  }
  if (instruction.result)
    storeLanes(warp.lanes<uint32_t>(instruction.result), leaders, mask);
  warp.setPredicate(instruction.secondResult, elected, mask);
}

void decodeElect(Decoder &decoder) {
  Instruction &instruction = decoder.instruction;
  expectSync(decoder);
  decoder.expectOperands(2);
  instruction.result = decoder.result(decoder.operand(0), Type::B32);
  instruction.secondResult = decoder.predicate(decoder.operand(0).second);
  synchronizes(decoder, 1);
  instruction.execute = elect;
}

constexpr Opcode opcodes[] = {
    {"shfl", decodeShuffle},          {"vote", decodeVote},
    {"activemask", decodeActiveMask}, {"match", decodeMatch},
    {"redux", decodeRedux},           {"elect", decodeElect},
};

} // namespace

std::span<const Opcode> warpOpcodes() { return opcodes; }

void decodeWarpBarrier(Decoder &decoder) {
  expectSync(decoder);
  decoder.expectOperands(1);
  synchronizes(decoder, 0);
  decoder.instruction.execute = [](Warp &warp, const Instruction &i,
                                   LaneMask mask) {
    checkMembers(warp, i, mask);
    warp.block->order.synchronizeWarp(warp.index);
  };
}

} // namespace fsdp::emulator
