//===- MutantsTest.cpp - Harmful changes are refused, others not ----------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Interpreter.h"
#include "PlacedProgram.h"
#include "fsdp/Analysis/Schedule/VerifyProgram.h"

#include "llvm/ADT/STLExtras.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <random>

using namespace mlir::fsdp;
using namespace mlir::fsdp::sched;

namespace {

/// A step of one or two units, overlapped, and what may be done to it.
class Mutant : public test::PlacedProgram {
public:
  explicit Mutant(unsigned seed) : random(seed) {
    // A third waits on the host between forward and backward.
    bool offloads = pick(3) == 0;
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
    std::vector<Id> activation; // none before the first unit
    for (int u = 0; u != units; ++u) {
      addWait(waits[u]);
      Id next = value();
      std::vector<Id> reads = activation;
      reads.insert(reads.begin(), gathered[u]);
      addLaunch("forward", reads, {next});
      activation = {next};
    }
    waits.clear();
    if (offloads)
      activation = {offload(activation.front(), gathered.front())};
    for (int u = units; u-- != 0;) {
      Id gradient = value();
      addLaunch("backward", {gathered[u], activation.front()}, {gradient});
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
      addWait(event);
    for (int u = 0; u != units; ++u) {
      Id updated = over(shards[u]);
      addLaunch("update", {shards[u], gradients[units - 1 - u]}, {updated},
                {{0, 0}});
      p.results.push_back(range(updated));
    }
  }

  /// @first goes to the host and comes back, which is returned; @second only
  /// goes there. Whether compute or only the second copy knows of the first is
  /// left to chance.
  Id offload(Id first, Id second) {
    std::vector<Id> there;
    for (Id from : {first, second}) {
      int64_t bytes = p.values[from].bytes;
      there.push_back(addHostValue(p.hostBytes, bytes));
      p.hostBytes += bytes;
      start("offload", Queue::D2H, TransferKind::DeviceToHost, from,
            there.back());
    }
    Id out = events - 2, back = value();
    bool knows = pick(2);
    if (knows)
      addWait(out);
    start("reload", Queue::H2D, TransferKind::HostToDevice, there[0], back);
    if (!knows)
      p.ops.back().after = {out};
    addWait(events - 1);
    if (!knows)
      addWait(out);
    addWait(out + 1);
    return back;
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
    case 7: {
      Id moved = pick(p.values.size());
      bool isHost = p.buffers[p.values[moved].buffer].isHost;
      place(moved,
            pick((isHost ? p.hostBytes : p.arenaBytes) / test::kGranule) *
                test::kGranule);
      break;
    }
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

private:
  int pick(int64_t count) {
    return std::uniform_int_distribution<int64_t>(0, count - 1)(random);
  }
  Id value(bool isArgument = false) {
    int64_t bytes = (1 + pick(2)) * test::kGranule;
    p.arenaBytes += bytes;
    return addValue(p.arenaBytes - bytes, bytes, isArgument);
  }
  Id over(Id other) {
    p.values.push_back(p.values[other]);
    p.values.back().isArgument = false;
    return p.values.size() - 1;
  }
  void start(const char *name, Queue queue, TransferKind kind, Id read,
             Id write) {
    addStart(name, queue, kind, events++, read, write);
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
  int harmful = 0, harmless = 0, rejected = 0, accepted = 0;
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
    ++(fault ? rejected : accepted);
    ASSERT_EQ(harm.empty(), !fault)
        << "seed " << seed << ": the interpreter says '" << harm
        << "', the verifier '" << (fault ? fault->message : "") << "'";
    ++(harm.empty() ? harmless : harmful);
  }
  const std::pair<const char *, int> counts[] = {
      {"mutants", harmful + harmless},
      {"harmful", harmful},
      {"harmless", harmless},
      {"rejected", rejected},
      {"accepted", accepted}};
  const char *separator = "";
  for (auto [name, count] : counts) {
    RecordProperty(name, count);
    std::printf("%s%d %s", separator, count, name);
    separator = ", ";
  }
  std::printf("\n");
  EXPECT_GT(harmful + harmless, 18000);
  EXPECT_GT(harmful, 8000);
  EXPECT_GT(harmless, 3000);
}

} // namespace
