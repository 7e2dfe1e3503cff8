//===- ContendedSearchTest.cpp - The best step under contention -----------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ContendedSearch.h"
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

constexpr Time kForever = std::numeric_limits<Time>::max();
constexpr int64_t kMostStates = 60'000;

namespace {
/// A small step by seed, of every kind, and what slows it down.
struct Contended {
  CostByLink byLink;
  ConstantCost constant;
  ScheduleProblem p;
  double ratio = 0;

  explicit Contended(uint64_t seed) {
    RandomOptions o = pickOptions(seed);
    o.units = 2 + seed % 2;
    o.rooms = seed % 5 ? o.rooms : 0;
    o.copies = seed % 3 ? 0 : 0.8;
    o.latency = seed % 4 ? 0 : 0.2;
    ratio = o.ratio;
    p = makeProblem(o, seed);
    for (ConstantCost *cost : {&constant, (ConstantCost *)&byLink}) {
      cost->computeLoss = 40 + 30 * (seed % 7);
      cost->transferLoss = cost->computeLoss * (seed % 4) / 2;
    }
    byLink.ownLinkForSums = o.hybrid == RandomOptions::OwnLink;
    p.cost = seed % 2 ? &constant : &byLink;
  }
};
} // namespace

TEST(ContendedSearch, findsWhatWaitingBesideSomethingSaves) {
  // Compute loses half of its speed to one link, and no more to both. The
  // short transfer is ready first, and had better wait for the long one.
  ConstantCost cost;
  cost.computeLoss = kFullRate / 2;
  ScheduleProblem p;
  p.cost = &cost;
  p.numLinks = 2;
  p.spine = {{100, 0}, {200, 0}, {400, 0}};
  Transfer early = makeReduction(0, 100, 0), late = makeReduction(1, 200, 0);
  early.queue = Queue::AllReduce;
  early.cost.link = 1;
  p.transfers = {early, late};
  ContendedResult best = searchContended(p);
  ASSERT_TRUE(best.complete && best.makespan);
  EXPECT_EQ(*best.makespan, 100 + 200 + 400 + 100);
  EXPECT_EQ(schedule(p)->makespan, 800);
}

TEST(ContendedSearch, isTheExactSearchWithoutContention) {
  for (uint64_t seed = 0; seed != 60; ++seed) {
    RandomOptions o = pickOptions(seed);
    o.units = 2 + seed % 2;
    ScheduleProblem p = makeProblem(o, seed);
    ExactResult exact = searchExactly(p);
    ContendedResult contended = searchContended(p, {kForever, kMostStates});
    if (!contended.complete)
      continue;
    ASSERT_EQ(exact.makespan.has_value(), contended.makespan.has_value());
    if (!exact.makespan)
      continue;
    // Links that are shared may let it be better.
    if (o.hybrid == RandomOptions::SharedLink)
      EXPECT_LE(*contended.makespan, *exact.makespan) << "seed " << seed;
    else
      EXPECT_EQ(*contended.makespan, *exact.makespan) << "seed " << seed;
  }
}

TEST(ContendedSearch, agreesWithSimulationAndPeak) {
  int found = 0;
  for (uint64_t seed = 0; seed != 100; ++seed) {
    Contended c(seed);
    ContendedResult best = searchContended(c.p, {kForever, kMostStates, true});
    if (!best.makespan)
      continue;
    ASSERT_EQ(checkSchedule(c.p, best.schedule), "") << "seed " << seed;
    EXPECT_EQ(simulate(c.p, best.schedule).step, *best.makespan)
        << "seed " << seed;
    EXPECT_LE(getPeak(c.p, best.schedule), c.p.budget) << "seed " << seed;
    ++found;
  }
  EXPECT_GT(found, 80);
}

TEST(ContendedSearch, isNotBelowTheBound) {
  Time before = 0, raised = 0, exact = 0;
  for (uint64_t seed = 0; seed != 150; ++seed) {
    Contended c(seed);
    ContendedResult best = searchContended(c.p, {kForever, kMostStates});
    if (!best.makespan)
      continue;
    Time bound = lowerBound(c.p).value, more = raiseBound(c.p, bound, kForever);
    EXPECT_LE(bound, more) << "seed " << seed;
    EXPECT_LE(more, *best.makespan) << "seed " << seed;
    EXPECT_EQ(raiseBound(c.p, bound, bound), bound);
    EXPECT_LE(raiseBound(c.p, bound, (bound + more) / 2), more);
    if (!best.complete)
      continue;
    before += bound;
    raised += more;
    exact += *best.makespan;
  }
  // And most of what was missing is there.
  EXPECT_LT(2 * (exact - raised), exact - before);
}

/// What it leaves out takes no less: where it is complete, what the scheduler
/// finds is among what it finds.
TEST(ContendedSearch, leavesNothingOut) {
  int compared = 0, links = 0;
  for (uint64_t seed = 0; seed != 150; ++seed) {
    Contended c(seed);
    std::optional<Schedule> s = schedule(c.p);
    if (!s)
      continue;
    ContendedResult best = searchContended(c.p, {s->makespan + 1, kMostStates});
    if (!best.complete)
      continue;
    EXPECT_TRUE(best.makespan.has_value()) << "seed " << seed;
    ++compared;
    links += c.p.numLinks > 2;
  }
  EXPECT_GT(compared, 90);
  EXPECT_GT(links, 20);
}

/// What is ready on one link may wait for another: then both slow compute down
/// at once. And it may not pay.
TEST(ContendedSearch, isReachedByTheScheduler) {
  int compared = 0, links = 0;
  for (uint64_t seed = 0; seed != 120; ++seed) {
    Contended c(seed);
    std::optional<Schedule> s = schedule(c.p);
    if (!s)
      continue;
    ContendedResult best =
        searchContended(c.p, {Time(double(s->makespan) / 1.01), kMostStates});
    EXPECT_FALSE(best.makespan) << "seed " << seed << ": " << s->makespan;
    compared += best.complete;
    links += best.complete && c.p.numLinks > 1;
  }
  EXPECT_GT(compared, 70);
  EXPECT_GT(links, 30);
}

/// Some transfers share their link, for the latency that each hides of the
/// other, and some begin one behind the other, for what compute waits for.
TEST(ContendedSearch, isReachedWherePairsOfTransfersDiffer) {
  RandomOptions o = pickOptions(54);
  o.rooms = 2;
  o.latency = 0.3;
  ScheduleProblem p = makeProblem(o, 54);
  std::optional<Schedule> s = schedule(p);
  ASSERT_TRUE(s);
  ContendedResult best = searchContended(
      p, {Time(double(s->makespan) / 1.005), /*maxStates=*/1'000'000});
  EXPECT_TRUE(best.complete);
  EXPECT_FALSE(best.makespan) << s->makespan;
  size_t behind = llvm::count_if(
      s->after, [](const auto &others) { return !others.empty(); });
  EXPECT_GT(behind, 0u);
}

/// Compute waits for a gather that it does not need yet, so that gathers get
/// ahead of reductions, once for the whole of backward.
TEST(ContendedSearch, isReachedWhereComputeWaitsForLater) {
  constexpr struct {
    int seed, rooms;
  } kSteps[] = {{187, 0}, {191, 0}, {191, 2}, {75, 2}, {163, 1}, {131, 0}};
  for (auto [seed, rooms] : kSteps) {
    RandomOptions o = pickOptions(seed);
    o.rooms = rooms;
    o.latency = 0.1 * (1 + seed % 4);
    o.fetches = false;
    ScheduleProblem p = makeProblem(o, seed);
    std::optional<Schedule> s = schedule(p);
    ASSERT_TRUE(s);
    ContendedResult best = searchContended(
        p, {Time(double(s->makespan) / 1.005), /*maxStates=*/1'000'000});
    EXPECT_TRUE(best.complete) << "seed " << seed;
    EXPECT_FALSE(best.makespan) << "seed " << seed << ": " << s->makespan;
  }
}

/// Where memory is short, compute waits, and loses to what it does not wait
/// for.
TEST(RaisedBound, countsWaitsAndContention) {
  ConstantCost cost;
  cost.computeLoss = 150;
  cost.transferLoss = 75;
  for (uint64_t seed : {37, 16, 70, 19, 77}) {
    RandomOptions o = pickOptions(seed);
    o.ratio = 0.8;
    ScheduleProblem p = makeProblem(o, seed);
    p.cost = &cost;
    Time bound = lowerBound(p).value;
    Time step = schedule(p)->makespan;
    EXPECT_GT(double(step), 1.02 * double(bound)) << "seed " << seed;
    EXPECT_LT(double(step), 1.01 * double(raiseBound(p, bound, step)))
        << "seed " << seed;
  }
}

TEST(RaisedBound, isAtMostFSDPsSchedulesWithContention) {
  for (uint64_t seed = 0; seed != 100; ++seed) {
    RandomOptions o = pickOptions(seed);
    o.rooms = seed % 6;
    o.copies = seed % 3 ? 0 : 0.8;
    o.latency = seed % 2 ? 0 : 0.2;
    ScheduleProblem p = makeProblem(o, seed);
    CostByLink cost;
    cost.computeLoss = 30 * (seed % 11);
    cost.transferLoss = 50 * (seed % 5);
    cost.ownLinkForSums = o.hybrid == RandomOptions::OwnLink;
    p.cost = &cost;
    Time bound = raiseBound(p, lowerBound(p).value, kForever);
    SCOPED_TRACE(seed);
    expectAtMostFSDPs(bound, p);
  }
}
