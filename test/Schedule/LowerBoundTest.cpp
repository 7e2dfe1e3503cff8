//===- LowerBoundTest.cpp - What no schedule can beat ---------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RandomProblems.h"
#include "SmallProblems.h"

#include "ConstantCost.h"
#include "fsdp/Analysis/Schedule/FSDPSchedules.h"
#include "fsdp/Analysis/Schedule/LowerBound.h"

#include "gtest/gtest.h"

using namespace mlir::fsdp;
using namespace mlir::fsdp::sched;
using namespace mlir::fsdp::sched::test;

TEST(LowerBound, isComputeWithTheFirstGatherAndTheLastReduction) {
  Bound bound = lowerBound(makeTwoUnits());
  EXPECT_EQ(bound.critical, 40 + 400 + 60 + 10);
  EXPECT_EQ(bound.value, 510);
  EXPECT_STREQ(bound.binding, "critical path");
}

TEST(LowerBound, countsTheLinkWhereItIsBusiest) {
  ScheduleProblem p = makeTwoUnits();
  for (Transfer &t : p.transfers)
    t.cost.work = 300;
  Bound bound = lowerBound(p);
  // All five one after the other and the last update; on the link's own, that
  // is more than any queue shows.
  EXPECT_EQ(bound.links[0], 5 * 300 + 10);
  // Two gathers, f1 and b1, both reductions, the update.
  EXPECT_EQ(bound.critical, 600 + 200 + 300 + 300 + 10);
  EXPECT_EQ(bound.value, 1510);
}

TEST(LowerBound, knowsWhatTheBudgetPutsInOrder) {
  ScheduleProblem p = makeTwoUnits();
  // Room for two units: the third gather waits for b1, and b0 for the first
  // reduction as well, on the same link.
  p.budget = 210;
  EXPECT_EQ(lowerBound(p).value, 340 + (40 + 60) + 100 + 60 + 10);
}

TEST(LowerBound, countsWhatContentionTakes) {
  ScheduleProblem p = makeTwoUnits();
  test::ConstantCost cost;
  cost.computeLoss = 256;
  p.cost = &cost;
  for (Id t : {0, 1, 2})
    p.transfers[t].cost.work = 100;
  // The link: 300 for gathers and 120 for reductions, of which the first 100
  // have nothing beside them; compute is a quarter slower in the others.
  Bound bound = lowerBound(p);
  EXPECT_EQ(bound.contended, 100 + 420 + 320 / 4);
}

TEST(LowerBound, countsContentionFromBackwardOn) {
  // Forward waits for gathers; what backward needs cannot be sent before.
  ScheduleProblem p = makeTwoUnits();
  test::ConstantCost cost;
  cost.computeLoss = 256;
  p.cost = &cost;
  for (Id t : {0, 1, 2})
    p.transfers[t].cost.work = 1000;
  p.spine[2].work = 4000;
  // f1 cannot begin before 2000: then all compute but f0 is left, and on the
  // link the third gather, of which nothing was sent, and the reductions.
  Time left = 0;
  for (size_t s = 1; s != p.spine.size(); ++s)
    left += p.spine[s].work;
  for (const FloatingOp &op : p.floating)
    left += op.work;
  EXPECT_EQ(lowerBound(p).contended, 2000 + left + (1000 + 120) / 4);
}

namespace {
struct HalfSpeed : test::ConstantCost {
  int rate(Queue q, QueueMask active) const override {
    return active & ~maskOf(q) ? kFullRate / 2 : kFullRate;
  }
};
} // namespace

TEST(LowerBound, countsWhatLinksTakeFromEachOther) {
  ScheduleProblem p;
  p.numLinks = 2;
  p.spine.push_back({10, 0, -1, -1});
  HalfSpeed cost;
  p.cost = &cost;
  for (Id link : {0, 1}) {
    Transfer t;
    t.queue = link ? Queue::AllReduce : Queue::Reduce;
    t.cost.work = 100;
    t.cost.link = link;
    t.ready = 0;
    p.transfers.push_back(t);
  }
  // Side by side each takes twice as long as alone.
  EXPECT_EQ(lowerBound(p).contended, 10 + 200);
  EXPECT_EQ(lowerBound(p).value, 210);
}

TEST(LowerBound, isBelowFSDPsSchedules) {
  for (uint64_t seed = 0; seed != 100; ++seed) {
    ScheduleProblem p = makeProblem(pickOptions(seed), seed);
    test::ConstantCost cost;
    cost.computeLoss = 100;
    cost.transferLoss = 60;
    if (seed % 2)
      p.cost = &cost;
    for (bool gathersFirst : {false, true}) {
      FSDPOptions options;
      options.gathersFirst = gathersFirst;
      Schedule s = scheduleLikeFSDP(p, options);
      if (s.peak <= p.budget)
        EXPECT_LE(lowerBound(p).value, s.makespan) << "seed " << seed;
    }
  }
}
