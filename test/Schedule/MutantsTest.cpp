//===- MutantsTest.cpp - Harmful changes are refused, others not ----------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Interpreter.h"
#include "fsdp/Analysis/Schedule/VerifyProgram.h"

#include "llvm/ADT/STLExtras.h"

#include <gtest/gtest.h>

#include <random>

using namespace mlir::fsdp;
using namespace mlir::fsdp::sched;

namespace {

/// A step of one or two units, overlapped, and what may be done to it.
class Mutant {
public:
  explicit Mutant(unsigned seed) : random(seed) {
    p.groups = {{2, 1}, {2, 2}};
    p.kernels.resize(1);
    int units = 1 + pick(2);
    std::vector<Id> shards, gathered, gradients;
    std::vector<Id> waits;
    for (int u = 0; u != units; ++u) {
      shards.push_back(value(true));
      gathered.push_back(value());
      start("gather", Queue::AllGather, TransferKind::AllGather, shards[u],
            gathered[u]);
      waits.push_back(events - 1);
    }
    Id activation = -1;
    for (int u = 0; u != units; ++u) {
      wait(waits[u]);
      Id next = value();
      launch("forward", {gathered[u], activation}, next);
      activation = next;
    }
    waits.clear();
    for (int u = units; u-- != 0;) {
      Id gradient = value();
      launch("backward", {gathered[u], activation}, gradient);
      Id reduced = value();
      start("scatter", Queue::Reduce, TransferKind::ReduceScatter, gradient,
            reduced);
      gradients.push_back(reduced);
      if (pick(2)) {
        // Over two axes: in place, right behind the other.
        Id mean = over(reduced);
        start("reduce", Queue::AllReduce, TransferKind::AllReduce, reduced,
              mean);
        p.ops.back().after = {events - 2};
        gradients.back() = mean;
        waits.push_back(events - 2);
      }
      waits.push_back(events - 1);
    }
    for (Id event : waits)
      wait(event);
    for (int u = 0; u != units; ++u) {
      Id updated = over(shards[u]);
      launch("update", {shards[u], gradients[units - 1 - u]}, updated);
      p.results.push_back(range(updated));
    }
  }

  void mutate() {
    int op = pick(p.ops.size()), other = pick(p.ops.size());
    switch (pick(10)) {
    case 0:
      std::swap(p.ops[op], p.ops[other]);
      break;
    case 1:
      p.ops.erase(p.ops.begin() + op);
      break;
    case 2: // What stood at `op` comes to stand at `other`.
    case 3: {
      StepOp moved = p.ops[op];
      p.ops.erase(p.ops.begin() + op);
      p.ops.insert(p.ops.begin() + std::min<int>(other, p.ops.size()), moved);
      break;
    }
    case 4: {
      StepOp again = p.ops[op];
      p.ops.insert(p.ops.begin() + other, again);
      break;
    }
    case 5:
      if (p.ops[op].kind == StepOpKind::Start) {
        if (p.ops[op].after.empty())
          p.ops[op].after.push_back(pick(events));
        else
          p.ops[op].after.clear();
      }
      break;
    case 6:
    case 7:
      place(pick(p.values.size()),
            pick(p.arenaBytes / test::kGranule) * test::kGranule);
      break;
    case 8:
      if (p.ops[op].kind == StepOpKind::Start)
        p.ops[op].queue = Queue(1 + pick(3));
      break;
    case 9:
      if (!p.ops[op].reads.empty())
        p.ops[op].reads.front() = range(pick(p.values.size()));
      break;
    }
  }

  StepProgram p;

private:
  int pick(int64_t count) {
    return std::uniform_int_distribution<int64_t>(0, count - 1)(random);
  }
  Id value(bool isArgument = false) {
    int64_t bytes = (1 + pick(2)) * test::kGranule;
    StepBuffer buffer;
    buffer.offset = p.arenaBytes;
    buffer.bytes = bytes;
    buffer.isArgument = isArgument;
    p.buffers.push_back(buffer);
    p.values.push_back(
        {Id(p.buffers.size()) - 1, p.arenaBytes, bytes, isArgument, {}});
    p.arenaBytes += bytes;
    return p.values.size() - 1;
  }
  Id over(Id other) {
    p.values.push_back(p.values[other]);
    p.values.back().isArgument = false;
    return p.values.size() - 1;
  }
  ByteRange range(Id value) const {
    return {value, p.values[value].offset, p.values[value].bytes};
  }
  StepOp &add(const char *name, StepOpKind kind) {
    StepOp &op = p.ops.emplace_back();
    op.name = name;
    op.kind = kind;
    return op;
  }
  void launch(const char *name, std::vector<Id> reads, Id write) {
    StepOp &op = add(name, StepOpKind::Launch);
    op.kernel = 0;
    for (Id read : reads)
      if (read >= 0)
        op.reads.push_back(range(read));
    op.writes.push_back(range(write));
  }
  void start(const char *name, Queue queue, TransferKind kind, Id read,
             Id write) {
    StepOp &op = add(name, StepOpKind::Start);
    op.queue = queue;
    op.event = events++;
    op.transfer = p.transfers.size();
    p.transfers.push_back({kind, {16}, 0});
    op.reads.push_back(range(read));
    op.writes.push_back(range(write));
  }
  void wait(Id event) { add("wait", StepOpKind::Wait).event = event; }
  /// All ops see the value there; its bytes may stick out of the arena.
  void place(Id value, int64_t offset) {
    p.values[value].offset = offset;
    for (StepOp &op : p.ops) {
      for (ByteRange &range : op.reads)
        if (range.value == value)
          range.offset = offset;
      for (ByteRange &range : op.writes)
        if (range.value == value)
          range.offset = offset;
    }
    for (ByteRange &range : p.results)
      if (range.value == value)
        range.offset = offset;
  }

  std::mt19937 random;
  Id events = 0;
};

TEST(Mutants, TheProgramsAreRight) {
  for (unsigned seed = 0; seed != 50; ++seed) {
    Mutant mutant(seed);
    EXPECT_EQ(test::runEveryWay(mutant.p), "");
    auto fault = verifyProgram(mutant.p);
    EXPECT_FALSE(fault) << fault->message;
  }
}

TEST(Mutants, HarmfulOnesAreRefusedAndNoOthers) {
  int harmful = 0, harmless = 0;
  for (unsigned seed = 0; seed != 20000; ++seed) {
    Mutant mutant(seed);
    for (unsigned i = 0; i != 1 + seed % 3; ++i)
      mutant.mutate();
    bool sticksOut = llvm::any_of(mutant.p.values, [&](const StepValue &value) {
      return value.isArgument &&
             value.offset + value.bytes > mutant.p.arenaBytes;
    });
    if (sticksOut)
      continue;
    std::string harm = test::runEveryWay(mutant.p);
    auto fault = verifyProgram(mutant.p);
    ASSERT_EQ(harm.empty(), !fault)
        << "seed " << seed << ": the interpreter says '" << harm
        << "', the verifier '" << (fault ? fault->message : "") << "'";
    ++(harm.empty() ? harmless : harmful);
  }
  EXPECT_GT(harmful + harmless, 18000);
  EXPECT_GT(harmful, 8000);
  EXPECT_GT(harmless, 3000);
}

} // namespace
