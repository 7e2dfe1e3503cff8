//===- MakespanTest.cpp - Simulation, legality and peak -------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "SmallProblems.h"

#include "ConstantCost.h"
#include "fsdp/Schedule/Makespan.h"
#include "fsdp/Schedule/SchedulePeak.h"

#include "gtest/gtest.h"

#include <numeric>

using namespace mlir::fsdp;
using namespace mlir::fsdp::sched;
using namespace mlir::fsdp::sched::test;

/// Everything as early as data lets it, gathers one after the other, the last
/// gather before the first reduction, updates at the end.
static Schedule makeSchedule(const ScheduleProblem &p) {
  return makeOrder(
      p, {{false, 0}, {false, 1}, {false, 2}, {false, 3}, {true, 0}, {true, 1}},
      {0, 0, 0, 3, 4});
}

static Time sum(const std::vector<Time> &v) {
  return std::accumulate(v.begin(), v.end(), Time(0));
}

TEST(Makespan, playsTwoUnits) {
  ScheduleProblem p = makeTwoUnits();
  Schedule s = makeSchedule(p);
  ASSERT_EQ(checkSchedule(p, s), "");
  Simulation sim = simulate(p, s);
  // Gathers end at 40, 80, 120; f0 runs from 40 to 140, b0 ends at 440; the
  // reductions run from 340 to 400 and from 440 to 500; the last update ends
  // at 510.
  EXPECT_EQ(sim.compute[0].begin, 40);
  EXPECT_EQ(sim.compute[3].end, 440);
  EXPECT_EQ(sim.transfers[3].begin, 340);
  EXPECT_EQ(sim.transfers[4].end, 500);
  EXPECT_EQ(sim.step, 510);
  EXPECT_EQ(sim.exposed, 90);
  // The first gather, and the last reduction less the update beside it.
  EXPECT_EQ(sim.exposedBy, (std::vector<Time>{40, 0, 0, 0, 50}));
  EXPECT_EQ(sim.transfers[1].cause, Cause::QueueBusy);
  EXPECT_EQ(sim.transfers[1].blocker, 0);
  EXPECT_EQ(sim.compute[0].blocker, 0);
}

TEST(Makespan, transfersOnALinkShareItEvenly) {
  ScheduleProblem p = makeTwoUnits();
  Schedule s = makeSchedule(p);
  // The gather for b0 begins with the reduction of b1.
  s.issue = {0, 1, 3, 2, 4};
  s.place = {0, 0, 3, 3, 4};
  Simulation sim = simulate(p, s);
  // 40 at half speed, and then the other 20 of the reduction alone.
  EXPECT_EQ(sim.transfers[2].end, 340 + 80);
  EXPECT_EQ(sim.transfers[3].end, 340 + 100);
  // One after the other by an edge.
  s.after[2].push_back(3);
  sim = simulate(p, s);
  EXPECT_EQ(sim.transfers[3].end, 340 + 60);
  EXPECT_EQ(sim.transfers[2].end, 340 + 100);
  EXPECT_EQ(sim.transfers[2].cause, Cause::LinkBusy);
  // b0 waits for the gather, which waited for the reduction.
  EXPECT_EQ(sim.exposedBy[3], 60);
  EXPECT_EQ(sim.exposedBy[2], 40);
  EXPECT_EQ(sum(sim.exposedBy), sim.exposed);
}

TEST(Makespan, latencyTakesTheQueueAndNotTheLink) {
  ScheduleProblem p = makeTwoUnits();
  p.transfers[2].cost.latency = 60;
  Schedule s = makeSchedule(p);
  s.issue = {0, 1, 3, 2, 4};
  s.place = {0, 0, 3, 3, 4};
  Simulation sim = simulate(p, s);
  EXPECT_EQ(sim.transfers[3].end, 340 + 60);
  EXPECT_EQ(sim.transfers[2].end, 340 + 100);
}

TEST(Makespan, contentionSlowsComputeAndIsExposed) {
  ScheduleProblem p = makeTwoUnits();
  test::ConstantCost cost;
  cost.computeLoss = 512;
  p.cost = &cost;
  Schedule s = makeSchedule(p);
  Simulation sim = simulate(p, s);
  // f0 runs at half speed while the other gathers run, from 40 to 120.
  EXPECT_EQ(sim.compute[0].end, 180);
  EXPECT_EQ(sim.exposedBy[1], 20);
  EXPECT_EQ(sim.exposedBy[2], 20);
  EXPECT_EQ(sum(sim.exposedBy), sim.exposed);
}

TEST(Makespan, memoryOverTime) {
  ScheduleProblem p = makeTwoUnits();
  Schedule s = makeSchedule(p);
  Simulation sim = simulate(p, s);
  // f0 beside all three gathers, from 80 on.
  EXPECT_EQ(sim.peak, 310);
  EXPECT_EQ(sim.memory.back().second, 0);
  // In some timing the first reduction is still under way when b0 makes the
  // second one's input; b0's own unit is there.
  EXPECT_EQ(getPeak(p, s), 310);
  p.spine[3].live = 100;
  EXPECT_EQ(simulate(p, s).peak, 400);
  EXPECT_EQ(getPeak(p, s), 400);
}

TEST(Makespan, peakCountsWhatSlowTransfersHold) {
  ScheduleProblem p = makeTwoUnits();
  p.spine[3].live = 200;
  Schedule s = makeSchedule(p);
  p.transfers[3].cost.work = 0;
  // Here the reduction is over at once; the order does not say so.
  EXPECT_EQ(simulate(p, s).peak, 400);
  EXPECT_EQ(getPeak(p, s), 500);
  // Compute waits for it before b0.
  s.known[3] = 3;
  EXPECT_EQ(getPeak(p, s), 400);
}

TEST(Makespan, peakKnowsThatAGatherComesAfterAReduction) {
  ScheduleProblem p = makeTwoUnits();
  p.spine[3].live = 200;
  Schedule s = makeSchedule(p);
  s.issue = {0, 1, 3, 2, 4};
  s.place = {0, 0, 3, 3, 4};
  EXPECT_EQ(getPeak(p, s), 500);
  // b0 waits for the gather, and so for the reduction.
  s.after[2].push_back(3);
  EXPECT_EQ(getPeak(p, s), 400);
}

TEST(Makespan, refusesIllegalSchedules) {
  ScheduleProblem p = makeTwoUnits();
  struct Case {
    void (*change)(Schedule &);
    const char *error;
  } cases[] = {
      {[](Schedule &s) { std::swap(s.line[0], s.line[1]); },
       "line op 0: expected segment 0, got 1"},
      {[](Schedule &s) { s.line[5] = s.line[4]; },
       "line op 5: expected each op once"},
      {[](Schedule &s) { s.line.pop_back(); },
       "expected 6 ops on the line, got 5"},
      {[](Schedule &s) { s.issue[1] = 0; },
       "start 1: expected each transfer once"},
      {[](Schedule &s) {
         s.place = {1, 0, 0, 3, 4};
       },
       "transfer 1: expected a place from 1 to 6, got 0"},
      {[](Schedule &s) {
         std::swap(s.issue[3], s.issue[4]);
         s.place[3] = 4;
       },
       "queue 2: expected its transfers in order"},
      {[](Schedule &s) { s.place[3] = 2; },
       "transfer 3: expected 3 segments before its start"},
      {[](Schedule &s) { s.place[2] = 4, s.place[3] = 4; },
       "transfer 2: expected its start before its first use"},
      {[](Schedule &s) { s.known[4] = 3; },
       "transfer 4: expected its wait behind its start"},
      {[](Schedule &s) { s.after[0].push_back(3); },
       "transfer 0: expected transfer 3 issued before it"},
      {[](Schedule &s) { s.place[4] = 6; },
       "floating op 1: expected transfer 4 started before it"},
  };
  for (const Case &c : cases) {
    Schedule s = makeSchedule(p);
    c.change(s);
    EXPECT_EQ(checkSchedule(p, s), c.error);
  }
}

TEST(Makespan, peakCountsAGatherBeforeTheNextOneSaysThatItIsOver) {
  // The first one's input and result: 10 + 20. The second one takes 1, and has
  // not begun before that input is free.
  ScheduleProblem p;
  p.spine = {{9000, 0}, {1000, 0}};
  p.transfers = {makeGather(1, 1000, 20), makeGather(1, 1000, 1)};
  FloatingOp cast;
  cast.before = 0;
  cast.heldBytes = 10;
  p.floating = {cast};
  Schedule s = makeOrder(p, {{true, 0}, {false, 0}, {false, 1}}, {1, 1});
  ASSERT_EQ(checkSchedule(p, s), "");
  EXPECT_EQ(simulate(p, s).peak, 30);
  EXPECT_EQ(getPeak(p, s), 30);
}

TEST(Makespan, peakCountsALargerReductionBehindASmallOne) {
  // The second one's result comes while its input and the first one's result
  // are there: 1 + 16 + 8.
  ScheduleProblem p;
  p.spine = {{1000, 0}, {9000, 0}};
  p.transfers = {makeReduction(0, 1000, 2), makeReduction(0, 1000, 16)};
  p.transfers[0].dstBytes = 1;
  p.transfers[1].dstBytes = 8;
  Schedule s = makeOrder(p, {{false, 0}, {false, 1}}, {1, 1});
  ASSERT_EQ(checkSchedule(p, s), "");
  EXPECT_EQ(simulate(p, s).peak, 25);
  EXPECT_EQ(getPeak(p, s), 25);
}

TEST(Makespan, tailsRunInTheirOrder) {
  ScheduleProblem p = makeTwoUnits();
  Schedule s = makeSchedule(p);
  ASSERT_EQ(checkSchedule(p, s), "");
  std::swap(s.line[4], s.line[5]);
  EXPECT_EQ(checkSchedule(p, s), "floating op 1: expected floating op 0 before "
                                 "it, as tails run");
}
