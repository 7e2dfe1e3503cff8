//===- LowerBoundTest.cpp - What no schedule can beat ---------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "AtMostFSDP.h"
#include "ConstantCost.h"
#include "RandomProblems.h"
#include "SmallProblems.h"

#include "fsdp/Schedule/ExactSearch.h"
#include "fsdp/Schedule/LowerBound.h"
#include "fsdp/Schedule/Makespan.h"
#include "fsdp/Schedule/SchedulePeak.h"
#include "fsdp/Schedule/Scheduler.h"

#include "gtest/gtest.h"

using namespace mlir::fsdp;
using namespace mlir::fsdp::sched;
using namespace mlir::fsdp::sched::test;

TEST(LowerBound, isComputeWithTheFirstGatherAndTheLastReduction) {
  Bound bound = lowerBound(makeTwoUnits());
  EXPECT_EQ(bound.critical, 40 + 400 + 60 + 10);
  EXPECT_EQ(bound.value, 510);
  EXPECT_EQ(bound.binding, Bound::CriticalPath);
}

TEST(LowerBound, knowsThatFreedPartsMakeRoom) {
  // Half of what the first gather brought is free behind the first segment: the
  // second one fits beside the reduction then.
  ScheduleProblem p;
  p.numLinks = 2;
  p.spine = {{100, 0}, {100, -50}};
  p.transfers = {makeGather(0, 50, 0), makeGather(1, 50, 1),
                 makeReduction(0, 50, 0)};
  p.transfers[0].lastUse = 1;
  p.transfers[0].dstBytes = p.transfers[1].dstBytes = 100;
  p.transfers[2].cost.link = 1;
  p.transfers[2].dstBytes = 0;
  p.transfers[2].srcBytes = 100;
  p.transfers[2].srcBegin = 0;
  p.budget = 250;
  ASSERT_EQ(checkProblem(p), "");
  std::optional<Time> exact = searchExactly(p).makespan;
  ASSERT_TRUE(exact);
  EXPECT_LE(lowerBound(p).value, *exact);
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
  // have nothing beside them, nor the last 60, in front of an update of 10;
  // compute is a quarter slower in the others.
  Bound bound = lowerBound(p);
  EXPECT_EQ(bound.contended, 100 + 400 + 260 / 4 + 60 + 10);
}

TEST(LowerBound, countsWhatACastWaitsFor) {
  // All casts for a queue are in order: the first gather here waits for one,
  // the last one for all of them.
  ScheduleProblem p;
  p.spine = {{1000, 0}, {1000, 0}};
  p.transfers = {makeGather(0, 100, 0), makeGather(0, 100, 0)};
  for (Id before : {0, 1, 1, 1}) {
    FloatingOp cast;
    cast.work = 50;
    cast.before = before;
    p.floating.push_back(cast);
  }
  EXPECT_EQ(lowerBound(p).critical, 4 * 50 + 100 + 2000);
}

TEST(LowerBound, countsLatenciesThatNothingElseRunsBeside) {
  // Compute loses a quarter of its speed beside what is under way on the link,
  // be it only a latency.
  ScheduleProblem p;
  p.spine = {{1000, 0}, {1000, 0}, {1000, 0}};
  test::ConstantCost cost;
  cost.computeLoss = 256;
  p.cost = &cost;
  p.transfers = {makeGather(1, 100, 0), makeReduction(1, 100, 0)};
  for (Transfer &t : p.transfers)
    t.cost.latency = 300;
  // The gather is over before the reduction has an input.
  EXPECT_EQ(lowerBound(p).contended, 3000 + (400 + 400) / 4);
  // Two that may be under way side by side: as long as the longer one takes.
  p.transfers[0] = makeReduction(1, 100, 0);
  p.transfers[0].queue = Queue::AllReduce;
  p.transfers[0].cost.latency = 500;
  EXPECT_EQ(lowerBound(p).contended, 3000 + 600 / 4);
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
  // link the third gather, of which nothing was sent, and the reductions. The
  // last of these and its update, 70, come behind the spine.
  Time left = 0;
  for (size_t s = 1; s != p.spine.size(); ++s)
    left += p.spine[s].work;
  EXPECT_EQ(lowerBound(p).contended, 2000 + left + 70 + (1000 + 60) / 4);
}

namespace {
/// Compute loses a quarter of its speed to one link, three eighths to both.
struct TwoLinks : test::ConstantCost {
  int rate(Queue q, QueueMask active) const override {
    if (q != Queue::Compute)
      return kFullRate;
    int busy = bool(active & maskOf(Queue::Reduce)) +
               bool(active & maskOf(Queue::AllReduce));
    return busy == 2 ? 640 : busy == 1 ? 768 : kFullRate;
  }
};
} // namespace

TEST(LowerBound, addsUpWhatLinksTakeTogether) {
  ScheduleProblem p;
  p.numLinks = 2;
  p.spine = {{10, 0}, {1000, 0}};
  TwoLinks cost;
  p.cost = &cost;
  for (Id link : {0, 1}) {
    Transfer t;
    t.queue = link ? Queue::AllReduce : Queue::Reduce;
    t.cost.work = link ? 104 : 400;
    t.cost.link = link;
    t.ready = 0;
    p.transfers.push_back(t);
  }
  // 104 beside both, 296 beside the longer one.
  EXPECT_EQ(lowerBound(p).contended, 10 + 1000 + 104 * 3 / 8 + 296 / 4);
  // Compute would rather wait than run at a tenth of its speed.
  struct Crawl : TwoLinks {
    int rate(Queue q, QueueMask active) const override {
      return q == Queue::Compute && active & ~maskOf(q) ? 102 : kFullRate;
    }
  } crawl;
  p.cost = &crawl;
  EXPECT_LE(lowerBound(p).contended, 10 + 1000 + 400);
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
  p.spine.push_back({10, 0});
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
    SCOPED_TRACE(seed);
    expectAtMostFSDPs(lowerBound(p).value, p);
  }
}

//===----------------------------------------------------------------------===//
// raiseBound
//===----------------------------------------------------------------------===//

constexpr Time kForever = std::numeric_limits<Time>::max();

TEST(RaisedBound, isAtMostTheExactSearchs) {
  Time before = 0, raised = 0, exact = 0;
  for (uint64_t seed = 0; seed != 120; ++seed) {
    RandomOptions o = pickOptions(seed);
    o.rooms = seed % 4;
    o.copies = seed % 5 ? 0 : 0.8;
    ScheduleProblem p = makeProblem(o, seed);
    ExactResult best = searchExactly(p, kForever, 200'000);
    if (!best.complete || !best.makespan)
      continue;
    Time bound = lowerBound(p).value, more = raiseBound(p, bound, kForever);
    EXPECT_GE(more, bound) << "seed " << seed;
    EXPECT_LE(more, *best.makespan) << "seed " << seed;
    before += bound;
    raised += more;
    exact += *best.makespan;
  }
  // And most of what was missing is there.
  EXPECT_LT(10 * (exact - raised), exact - before);
}

TEST(RaisedBound, isAtMostAnySchedules) {
  // Latencies that overlap, links that are shared, and contention, of which the
  // exact search knows nothing.
  test::ConstantCost cost;
  cost.computeLoss = 100;
  cost.transferLoss = 60;
  for (uint64_t seed = 0; seed != 120; ++seed) {
    RandomOptions o = pickOptions(seed);
    o.rooms = 1 + seed % 4;
    o.latency = 0.1 * (seed % 5);
    o.copies = seed % 3 ? 0 : 0.8;
    ScheduleProblem p = makeProblem(o, seed);
    if (seed % 7 == 0)
      p.cost = &cost;
    Time bound = raiseBound(p, lowerBound(p).value, kForever);
    if (std::optional<Schedule> s = schedule(p))
      EXPECT_LE(bound, s->makespan) << "seed " << seed;
    SCOPED_TRACE(seed);
    expectAtMostFSDPs(bound, p);
  }
}

TEST(RaisedBound, knowsThatATailMustRunBeforeItsMemoryIsFree) {
  // The first reduction's result does not fit beside b0, so the update that
  // reads it comes first, from 400 on, and takes longer than b0's gather.
  ScheduleProblem p = makeTwoUnits();
  p.transfers[3].dstBytes = 50;
  for (FloatingOp &update : p.floating)
    update.work = 60;
  p.budget = 255;
  Time bound = lowerBound(p).value;
  EXPECT_EQ(bound, 400 + 40 + 100 + 60 + 60);
  EXPECT_EQ(raiseBound(p, bound, kForever), 400 + 60 + 100 + 60 + 60);
}

TEST(RaisedBound, isNotRaisedAboveWhatIsAskedFor) {
  for (uint64_t seed : {193, 16, 59}) {
    RandomOptions o = pickOptions(seed);
    o.rooms = 2;
    o.ratio = 0.8;
    ScheduleProblem p = makeProblem(o, seed);
    Time bound = lowerBound(p).value, raised = raiseBound(p, bound, kForever);
    ASSERT_GT(raised, bound);
    EXPECT_EQ(raiseBound(p, bound, bound), bound);
    EXPECT_EQ(raiseBound(p, bound, bound + 1), bound + 1);
    EXPECT_EQ(raiseBound(p, bound, raised + 1), raised);
  }
}

TEST(RaisedBound, knowsThatATransferCanBeOvertakenOnItsLink) {
  // The all_reduce shares the link with a long reduction that nothing waits
  // for, and is over first.
  ScheduleProblem p;
  p.spine = {{10000, 0}};
  Transfer reduce, sum;
  reduce.queue = Queue::Reduce;
  reduce.cost.work = 14000;
  sum.queue = Queue::AllReduce;
  sum.cost.work = 1000;
  sum.ready = 0;
  p.transfers = {reduce, sum};
  FloatingOp update;
  update.work = 8000;
  update.after = {1};
  p.floating = {update};
  Schedule s = makeOrder(p, {{false, 0}, {true, 0}}, {0, 1});
  ASSERT_EQ(checkSchedule(p, s), "");
  EXPECT_EQ(simulate(p, s).step, 20000);
  EXPECT_LE(raiseBound(p, lowerBound(p).value, kForever), 20000);
  EXPECT_LE(schedule(p)->makespan, 20000);
}

TEST(RaisedBound, knowsThatALatencyLeavesTheLinkToOthers) {
  ScheduleProblem p;
  p.spine = {{2000, 0}, {1000, 0}};
  p.transfers = {makeGather(1, 5000, 0), makeGather(1, 10000, 0),
                 makeReduction(0, 6000, 0), makeReduction(0, 2000, 0)};
  p.transfers[1].cost.latency = 5000;
  FloatingOp update;
  update.work = 10000;
  update.after = {3};
  p.floating = {update};
  Schedule s = makeOrder(p, {{false, 0}, {true, 0}, {false, 1}}, {0, 0, 1, 1});
  ASSERT_EQ(checkSchedule(p, s), "");
  EXPECT_EQ(simulate(p, s).step, 24000);
  EXPECT_LE(raiseBound(p, lowerBound(p).value, kForever), 24000);
}

TEST(RaisedBound, knowsThatATailMayFreeYet) {
  // Between the first two segments and the third, the tail frees the copy's
  // result. A cast before it gets ahead, and holds what the third one needs.
  ScheduleProblem p;
  p.spine = {{1000, 0}, {2000, 0}, {4000, 8}, {8000, 2}};
  p.budget = 10;
  Transfer copy;
  copy.queue = Queue::D2H;
  copy.cost.work = 4000;
  copy.dstBytes = 6;
  p.transfers = {copy, makeGather(3, 8000, 3)};
  p.transfers[1].queue = Queue::H2D;
  p.transfers[1].ready = 2;
  p.transfers[1].after = {0};
  FloatingOp cast, tail;
  cast.before = 1;
  cast.heldBytes = 4;
  tail.after = {0};
  p.floating = {cast, tail};
  Schedule s = makeOrder(
      p, {{false, 0}, {false, 1}, {true, 1}, {false, 2}, {true, 0}, {false, 3}},
      {0, 5});
  ASSERT_EQ(checkSchedule(p, s), "");
  ASSERT_LE(getPeak(p, s), p.budget);
  EXPECT_EQ(simulate(p, s).step, 24000);
  EXPECT_LE(raiseBound(p, lowerBound(p).value, kForever), 24000);
}
