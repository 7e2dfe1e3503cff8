//===- RankMutantsTest.cpp - One rank's program is another ----------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Ranks compare the hashes of their programs before the first step. So where
// one rank's program differs from the others' in a way that matters, its hash
// must differ, too.
//
//===----------------------------------------------------------------------===//

#include "MutantCounts.h"
#include "RankInterpreter.h"
#include "StepMutant.h"
#include "fsdp/Schedule/ProgramHash.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

using namespace mlir::fsdp;
using namespace mlir::fsdp::sched;
using sched::test::kGranule;
using sched::test::RanksOutcome;
using sched::test::runRanks;

namespace {

constexpr unsigned kRanks = 4;

/// What may be different in the program of one rank.
class RankMutant : public test::StepMutant {
public:
  explicit RankMutant(unsigned seed) : StepMutant(seed) {
    p.worldSize = kRanks;
    p.groups.push_back({4, 1});
  }
  void mutateRank() {
    while (!changeRank())
      ;
  }
  /// Writes the same program differently: other numbers for values, transfers
  /// and groups, other names for readers.
  void rewrite();

private:
  static bool isStart(const StepOp &op) { return op.kind == StepOpKind::Start; }
  static bool isWait(const StepOp &op) { return op.kind == StepOpKind::Wait; }
  static bool isCollective(const StepOp &op) {
    return isStart(op) && op.queue < Queue::D2H;
  }
  /// Ops may share a transfer: one of its own for @op.
  StepTransfer &own(StepOp &op) {
    p.transfers.push_back(StepTransfer(p.transfers[op.transfer]));
    op.transfer = p.transfers.size() - 1;
    return p.transfers.back();
  }
  void move(int from, int to) {
    StepOp op = p.ops[from];
    p.ops.erase(p.ops.begin() + from);
    p.ops.insert(p.ops.begin() + to, op);
  }
  bool changeRank();
  bool changeTransfer(StepOp &op);
  bool changeOrder();
  bool changeCompute();
};

/// What one collective is.
bool RankMutant::changeTransfer(StepOp &op) {
  StepTransfer &transfer = own(op);
  int part = pick(op.reads.size());
  switch (pick(8)) {
  case 0: { // Shorter or longer, on both sides.
    int64_t by =
        transfer.atomBytes[part] == kGranule || pick(2) ? kGranule : -kGranule;
    if (std::min(op.reads[part].bytes, op.writes[part].bytes) + by <= 0)
      return false;
    transfer.atomBytes[part] += by;
    op.reads[part].bytes += by;
    op.writes[part].bytes += by;
    return true;
  }
  case 1:
    op.reads[part].bytes += kGranule;
    return true;
  case 2:
    transfer.dtypes[part] = "bf16";
    return true;
  case 3:
    transfer.divisors[part] *= 2;
    return true;
  case 4:
    transfer.group = (transfer.group + 1 + pick(2)) % p.groups.size();
    return true;
  case 5: {
    Queue queue = Queue(1 + pick(3));
    std::swap(queue, op.queue);
    return queue != op.queue;
  }
  case 6: {
    TransferKind kind = TransferKind(pick(3));
    std::swap(kind, transfer.kind);
    return kind != transfer.kind;
  }
  default: // Another one of the parts first.
    std::swap(op.reads[part], op.reads.front());
    if (pick(2))
      std::swap(op.writes[part], op.writes.front());
    return part != 0;
  }
}

/// Which transfers there are, in which order, and when compute knows of them.
bool RankMutant::changeOrder() {
  int start = pickOp(isStart), other = pickOp(isStart), wait = pickOp(isWait);
  switch (pick(8)) {
  case 0:
    std::swap(p.ops[start], p.ops[other]);
    return start != other;
  case 1: { // Each does what the other did, under its own event.
    StepOp &a = p.ops[start], &b = p.ops[other];
    std::swap(a, b);
    std::swap(a.event, b.event);
    std::swap(a.after, b.after);
    return start != other;
  }
  case 2: { // Nobody waits for it, either.
    Id event = p.ops[start].event;
    p.ops.erase(
        std::remove_if(p.ops.begin(), p.ops.end(),
                       [&](const StepOp &op) { return op.event == event; }),
        p.ops.end());
    return true;
  }
  case 3: // Twice, and waited for at once.
  {
    StepOp again = p.ops[start];
    again.event = events++;
    p.ops.insert(p.ops.begin() + start + 1, again);
    StepOp &waits = *p.ops.insert(p.ops.begin() + start + 2, StepOp());
    waits.kind = StepOpKind::Wait;
    waits.event = again.event;
    return true;
  }
  case 4:
    p.ops.insert(p.ops.begin() + start, StepOp(p.ops[start]));
    return true;
  case 5:
    p.ops.erase(p.ops.begin() + (pick(2) ? start : wait));
    return true;
  case 6: {
    int from = pick(2) ? start : wait;
    int to = std::clamp<int>(from + pick(7) - 3, 0, p.ops.size() - 1);
    move(from, to);
    return from != to;
  }
  default: {
    auto &after = p.ops[start].after;
    if (!after.empty())
      after.clear();
    else
      after.push_back(pick(events));
    return true;
  }
  }
}

/// Kernels, what they start from, packs, and addresses.
bool RankMutant::changeCompute() {
  switch (pick(5)) {
  case 0: {
    int a = pickOp([](const StepOp &op) { return op.kernel >= 0; });
    int b = pickOp([](const StepOp &op) { return op.kernel >= 0; });
    std::swap(p.ops[a], p.ops[b]);
    return a != b;
  }
  case 1: {
    int op = pickOp([](const StepOp &op) { return op.kernel >= 0; });
    p.ops[op].name += "2";
    return true;
  }
  case 2: {
    int op = pickOp(
        [](const StepOp &op) { return op.kernel >= 0 && !op.inPlace.empty(); });
    if (op < 0)
      return false;
    StepOp &tied = p.ops[op];
    int i = pick(tied.inPlace.size());
    Id from = pick(tied.reads.size());
    std::swap(from, tied.inPlace[i].first);
    return from != tied.inPlace[i].first;
  }
  case 3: {
    int op = pickOp([](const StepOp &op) { return op.places.size() > 1; });
    if (op < 0)
      return false;
    std::swap(p.ops[op].places[0], p.ops[op].places[1]);
    findParts();
    return true;
  }
  default: {
    Id moved = pick(p.values.size());
    if (isHost(moved) || p.values[moved].isArgument)
      return false;
    // Some of it to where nobody is.
    if (pick(2))
      p.arenaBytes += p.values[moved].bytes;
    int64_t room = (p.arenaBytes - p.values[moved].bytes) / kGranule;
    int64_t to = (pick(3) ? pick(room + 1) : room) * kGranule;
    bool isNew = to != p.values[moved].offset;
    // Callers look where they did.
    std::vector<ByteRange> results = p.results;
    place(moved, to);
    p.results = results;
    return isNew;
  }
  }
}

bool RankMutant::changeRank() {
  switch (pick(5)) {
  case 0:
    return changeCompute();
  case 1:
  case 2:
    return changeOrder();
  default: {
    int op = pickOp(isCollective);
    return op >= 0 && changeTransfer(p.ops[op]);
  }
  }
}

void RankMutant::rewrite() {
  // The last value, transfer and group come first.
  auto turn = [](Id &id, size_t count) {
    if (id >= 0)
      id = (id + 1) % Id(count);
  };
  auto turnRanges = [&](auto &ranges) {
    for (ByteRange &range : ranges)
      turn(range.value, p.values.size());
  };
  for (StepOp &op : p.ops) {
    turnRanges(op.reads);
    turnRanges(op.writes);
    turn(op.transfer, p.transfers.size());
    if (op.kind != StepOpKind::Launch)
      op.name += " again";
    op.unit = 0;
    op.source += 7;
    op.backward = !op.backward;
    std::reverse(op.after.begin(), op.after.end());
  }
  turnRanges(p.results);
  for (StepValue &value : p.values)
    turnRanges(value.parts);
  for (StepTransfer &transfer : p.transfers)
    turn(transfer.group, p.groups.size());
  std::rotate(p.values.rbegin(), p.values.rbegin() + 1, p.values.rend());
  std::rotate(p.transfers.rbegin(), p.transfers.rbegin() + 1,
              p.transfers.rend());
  std::rotate(p.groups.rbegin(), p.groups.rbegin() + 1, p.groups.rend());
  for (StepBuffer &buffer : p.buffers)
    buffer.purpose = Purpose::Other;
  p.units.push_back("unit");
  p.kernels.resize(p.kernels.size() + 1);
}

TEST(RankMutants, WhatIsHarmfulHasAnotherHash) {
  int harmful = 0, harmless = 0, refused = 0, rewritten = 0;
  for (unsigned seed = 0; seed != 6000; ++seed) {
    RankMutant mutant(seed);
    const StepProgram right = mutant.p;
    const std::vector<ByteRange> &results = right.results;
    std::vector<StepProgram> programs(kRanks, right);
    const RanksOutcome expected = runRanks(programs, results);
    ASSERT_EQ(expected.fault, "") << "seed " << seed;
    const std::string hash = getProgramHash(right);

    StepProgram &one = programs[seed % kRanks];
    mutant.rewrite();
    one = mutant.p;
    EXPECT_TRUE(runRanks(programs, results) == expected) << "seed " << seed;
    EXPECT_EQ(getProgramHash(one), hash) << "seed " << seed;
    ++rewritten;

    mutant.p = right;
    mutant.mutateRank();
    one = mutant.p;
    RanksOutcome outcome = runRanks(programs, results);
    bool isHarmful = !(outcome == expected),
         isRefused = getProgramHash(one) != hash;
    ASSERT_TRUE(isRefused || !isHarmful)
        << "seed " << seed << ": "
        << (outcome.fault.empty() ? "other results" : outcome.fault)
        << ", and the same hash";
    ++(isHarmful ? harmful : harmless);
    refused += isRefused;
  }
  test::reportCounts({{"mutants_of_one_rank", harmful + harmless},
                      {"harmful", harmful},
                      {"harmless", harmless},
                      {"with_another_hash", refused},
                      {"rewritten_with_the_same", rewritten}});
  EXPECT_GT(harmful, 2000);
  EXPECT_GT(harmless, 200);
}

} // namespace
