//===- SchedulerTest.cpp - Order and places of a step ---------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RandomProblems.h"
#include "SmallProblems.h"

#include "ConstantCost.h"
#include "fsdp/Schedule/ExactSearch.h"
#include "fsdp/Schedule/FSDPSchedules.h"
#include "fsdp/Schedule/LowerBound.h"
#include "fsdp/Schedule/Makespan.h"
#include "fsdp/Schedule/SchedulePeak.h"
#include "fsdp/Schedule/Scheduler.h"

#include "gtest/gtest.h"

#include <random>

#include <ctime>
#include <numeric>

using namespace mlir::fsdp;
using namespace mlir::fsdp::sched;
using namespace mlir::fsdp::sched::test;

/// Everything that holds for each schedule.
static void expectSound(const ScheduleProblem &p, const Schedule &s) {
  ASSERT_EQ(checkSchedule(p, s), "");
  Simulation sim = simulate(p, s);
  EXPECT_EQ(sim.step, s.makespan);
  EXPECT_LE(sim.peak, s.peak);
  EXPECT_LE(s.peak, p.budget);
  EXPECT_EQ(
      std::accumulate(sim.exposedBy.begin(), sim.exposedBy.end(), Time(0)),
      sim.exposed);
  EXPECT_LE(lowerBound(p).value, s.makespan);
}

/// Whether the exact search has looked at all that takes no longer than @s, by
/// @effort; then it has found nothing better by more than a hundredth. It does
/// not know that transfers can share a link, so it may find nothing at all.
static bool isNearExact(const ScheduleProblem &p, const Schedule &s,
                        int64_t effort) {
  ExactResult best = searchExactly(p, s.makespan + 1, effort);
  if (best.complete)
    EXPECT_LE(double(s.makespan),
              1.01 * double(best.makespan.value_or(s.makespan)));
  return best.complete;
}

TEST(Scheduler, twoUnits) {
  ScheduleProblem p = makeTwoUnits();
  std::optional<Schedule> s = schedule(p);
  ASSERT_TRUE(s);
  expectSound(p, *s);
  EXPECT_EQ(s->makespan, 510);
}

TEST(Scheduler, nothingToDo) {
  ScheduleProblem p;
  std::optional<Schedule> s = schedule(p);
  ASSERT_TRUE(s);
  EXPECT_EQ(s->makespan, 0);
  p.spine.push_back({100, 10});
  s = schedule(p);
  ASSERT_TRUE(s);
  EXPECT_EQ(s->makespan, 100);
  EXPECT_EQ(s->peak, 10);
}

TEST(Scheduler, withinAHundredthOfTheExactSearch) {
  int compared = 0;
  for (uint64_t seed = 0; seed != 200; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    ScheduleProblem p = makeProblem(pickOptions(seed), seed);
    ASSERT_EQ(checkProblem(p), "");
    std::optional<Schedule> s = schedule(p);
    if (!s) {
      EXPECT_FALSE(searchExactly(p).makespan);
      continue;
    }
    expectSound(p, *s);
    ASSERT_TRUE(isNearExact(p, *s, 200'000));
    ++compared;
  }
  EXPECT_GE(compared, 190);
}

/// Among others: a fetch that may start is not always wanted yet, and a gather
/// that is needed later may have its room.
TEST(Scheduler, withinAHundredthOfTheExactSearchWithCopies) {
  int compared = 0;
  for (double copies : {0.3, 0.9, 1.5})
    for (uint64_t seed = 0; seed != 60; ++seed) {
      SCOPED_TRACE("seed " + std::to_string(seed));
      RandomOptions o = pickOptions(seed);
      o.rooms = 3;
      o.copies = copies;
      ScheduleProblem p = makeProblem(o, seed);
      std::optional<Schedule> s = schedule(p);
      if (!s)
        continue;
      expectSound(p, *s);
      compared += isNearExact(p, *s, 50'000);
    }
  EXPECT_GE(compared, 120);
}

TEST(Scheduler, copiesToTheHostAreHidden) {
  Time step = 0, bound = 0;
  for (uint64_t seed = 0; seed != 100; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    RandomOptions o = pickOptions(seed);
    o.copies = 0.2 + 0.2 * (seed % 5);
    ScheduleProblem p = makeProblem(o, seed);
    ASSERT_EQ(checkProblem(p), "");
    for (int64_t budget : {kNoBudget, p.budget, getLeastBudget(p)}) {
      p.budget = budget;
      std::optional<Schedule> s = schedule(p);
      EXPECT_EQ(s.has_value(), getLeastBudget(p) <= budget);
      if (!s)
        continue;
      expectSound(p, *s);
      step += s->makespan;
      bound += lowerBound(p).value;
    }
  }
  EXPECT_LE(double(step), 1.15 * double(bound));
}

/// Whatever transfers take, no more memory is in use than the peak of the order
/// says; and it says no more than some timing needs, or little.
TEST(Scheduler, peaksAreOfAnyTiming) {
  std::mt19937 random(3);
  double said = 0, seen = 0;
  for (uint64_t seed = 0; seed != 60; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    RandomOptions o = pickOptions(seed);
    o.copies = seed % 3 * 0.6;
    ScheduleProblem p = makeProblem(o, seed);
    std::optional<Schedule> s = schedule(p);
    if (!s)
      continue;
    int64_t most = 0;
    for (int timing = 0; timing != 60; ++timing) {
      ScheduleProblem other = p;
      for (Transfer &t : other.transfers)
        t.cost.work = random() % 3 == 0 ? 1 : t.cost.work * (random() % 40) / 8;
      most = std::max(most, simulate(other, *s).peak);
    }
    EXPECT_LE(most, s->peak);
    said += double(s->peak);
    seen += double(most);
  }
  EXPECT_LE(said, 1.02 * seen);
}

TEST(Scheduler, activationsOnTheHost) {
  int found = 0;
  for (uint64_t seed = 0; seed != 60; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    RandomOptions options = pickOptions(seed);
    options.copies = 0.2 + 0.1 * (seed % 15);
    ScheduleProblem p = makeProblem(options, seed);
    ASSERT_EQ(checkProblem(p), "");
    FSDPOptions theirs;
    for (bool gathersFirst : {false, true}) {
      theirs.gathersFirst = gathersFirst;
      ASSERT_EQ(checkSchedule(p, scheduleLikeFSDP(p, theirs)), "");
    }
    std::optional<Schedule> s = schedule(p);
    if (!s)
      continue;
    expectSound(p, *s);
    // A fetch stands behind what it fetches.
    std::vector<size_t> at(p.transfers.size());
    for (size_t i = 0; i != s->issue.size(); ++i)
      at[s->issue[i]] = i;
    for (size_t t = 0; t != p.transfers.size(); ++t)
      for (Id a : p.transfers[t].after)
        EXPECT_LT(at[a], at[t]);
    ++found;
  }
  EXPECT_GE(found, 55);
}

TEST(Scheduler, leavesRoomWhereItCan) {
  int64_t used = 0, usedWithRoom = 0;
  for (uint64_t seed = 0; seed != 60; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    RandomOptions o = pickOptions(seed);
    o.copies = seed % 2 ? 0.5 : 0;
    ScheduleProblem p = makeProblem(o, seed);
    int64_t least = getLeastBudget(p);
    p.room = 400'000;
    // All of it can be left everywhere.
    p.budget = least + p.room;
    std::optional<Schedule> s = schedule(p);
    ASSERT_TRUE(s);
    expectSound(p, *s);
    EXPECT_LE(s->peak, least);
    std::vector<int64_t> peaks = getPeaks(p, *s);
    EXPECT_EQ(*std::max_element(peaks.begin(), peaks.end()), s->peak);
    // Nothing at the fullest moments, but elsewhere.
    p.budget = least;
    s = schedule(p);
    ASSERT_TRUE(s);
    expectSound(p, *s);
    for (int64_t bytes : getPeaks(p, *s))
      usedWithRoom += bytes - p.fixedBytes;
    p.room = 0;
    for (int64_t bytes : getPeaks(p, *schedule(p)))
      used += bytes - p.fixedBytes;
  }
  EXPECT_LT(usedWithRoom, used / 20 * 19);
}

/// A place is good for nothing else until compute knows that the transfer that
/// read it is over; that matters where memory is short.
TEST(Scheduler, waitsForWhatHasLongBeenOver) {
  ScheduleProblem p;
  for (int i = 0; i != 10; ++i)
    p.spine.push_back({100, 10});
  p.backwardBegin = 2;
  // From 300 to 340: waited for where nobody minds if it takes twice as long.
  p.transfers = {makeReduction(2, 40, 100)};
  std::optional<Schedule> plenty = schedule(p);
  ASSERT_TRUE(plenty);
  expectSound(p, *plenty);
  EXPECT_EQ(plenty->known[0], 10);
  p.budget = plenty->peak;
  std::optional<Schedule> tight = schedule(p);
  ASSERT_TRUE(tight);
  expectSound(p, *tight);
  EXPECT_EQ(tight->known[0], 4);
  EXPECT_EQ(tight->makespan, plenty->makespan);
}

TEST(Scheduler, waitsBehindWhatTakesNoTime) {
  ScheduleProblem p;
  p.spine = {{0, 4}, {2000, 4}};
  p.transfers = {makeReduction(0, 0, 1)};
  p.budget = 5;
  std::optional<Schedule> s = schedule(p);
  ASSERT_TRUE(s);
  expectSound(p, *s);
}

TEST(Scheduler, nearTheBoundWhereComputeIsLonger) {
  for (double ratio : {0.3, 0.5, 0.8})
    for (int units : {3, 4, 8, 16})
      for (uint64_t seed = 0; seed != 8; ++seed) {
        RandomOptions o;
        o.units = units;
        o.ratio = ratio;
        o.rooms = 3;
        ScheduleProblem p = makeProblem(o, seed);
        std::optional<Schedule> s = schedule(p);
        ASSERT_TRUE(s);
        expectSound(p, *s);
        EXPECT_LE(double(s->makespan), 1.02 * double(lowerBound(p).value))
            << "ratio " << ratio << ", " << units << " units, seed " << seed;
      }
}

TEST(Scheduler, neverSlowerThanFSDP) {
  int faster = 0;
  for (uint64_t seed = 300; seed != 340; ++seed) {
    RandomOptions options = pickOptions(seed);
    options.units *= 3;
    ScheduleProblem p = makeProblem(options, seed);
    std::optional<Schedule> s = schedule(p);
    if (!s)
      continue;
    for (bool forward : {false, true})
      for (auto backward : {BackwardPrefetch::Pre, BackwardPrefetch::Post,
                            BackwardPrefetch::None}) {
        FSDPOptions theirs;
        theirs.forwardPrefetch = forward;
        theirs.backwardPrefetch = backward;
        Schedule other = scheduleLikeFSDP(p, theirs);
        ASSERT_EQ(checkSchedule(p, other), "") << "seed " << seed;
        if (other.peak > p.budget)
          continue;
        EXPECT_LE(s->makespan, other.makespan) << "seed " << seed;
        faster += s->makespan < other.makespan;
      }
  }
  EXPECT_GT(faster, 20);
}

TEST(Scheduler, obeysLimits) {
  for (uint64_t seed = 0; seed != 40; ++seed) {
    ScheduleProblem p = makeProblem(pickOptions(seed), seed);
    p.limits.forwardPrefetch = seed % 3;
    p.limits.backwardPrefetch = seed % 2;
    p.limits.inFlight = 2;
    p.limits.allReduceOnReduceQueue = seed % 4 == 0;
    // expectSound's legality includes the places that limits ask for.
    if (std::optional<Schedule> s = schedule(p))
      expectSound(p, *s);
  }
}

TEST(Scheduler, contentionKeepsTheProperties) {
  test::ConstantCost cost;
  cost.computeLoss = 150;
  cost.transferLoss = 80;
  for (uint64_t seed = 0; seed != 60; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    ScheduleProblem p = makeProblem(pickOptions(seed), seed);
    std::optional<Schedule> alone = schedule(p);
    p.cost = &cost;
    std::optional<Schedule> s = schedule(p);
    ASSERT_EQ(alone.has_value(), s.has_value());
    if (!s)
      continue;
    expectSound(p, *s);
    EXPECT_GE(s->makespan, lowerBound(p).contended);
  }
}

/// Where compute and transfers all but stop each other.
TEST(Scheduler, neverSlowerThanOneAfterTheOther) {
  test::ConstantCost cost;
  cost.computeLoss = cost.transferLoss = kFullRate / 10 * 9;
  int tight = 0;
  for (uint64_t seed = 0; seed != 40; ++seed) {
    ScheduleProblem p = makeProblem(pickOptions(seed), seed);
    p.cost = &cost;
    std::optional<Schedule> s = schedule(p);
    if (!s)
      continue;
    Time serial = 0;
    for (const SpineSegment &segment : p.spine)
      serial += segment.work;
    for (const FloatingOp &op : p.floating)
      serial += op.work;
    for (const Transfer &transfer : p.transfers)
      serial += transfer.cost.latency + transfer.cost.work;
    EXPECT_LE(s->makespan, serial) << "seed " << seed;
    tight += s->makespan > serial - serial / 50;
  }
  EXPECT_GT(tight, 5);
}

/// Casts and copies in little memory: of the ways to the shortest step few come
/// to their end.
TEST(Scheduler, hurriesWhereMostWaysEndInAWait) {
  test::ConstantCost cost;
  cost.computeLoss = 150;
  RandomOptions o;
  o.units = 16;
  o.ratio = 0.7;
  o.rooms = 2;
  o.copies = 0.3;
  o.casts = true;
  ScheduleProblem p = makeProblem(o, 8);
  for (const CostModel *model :
       {(const CostModel *)nullptr, (const CostModel *)&cost}) {
    p.cost = model;
    std::optional<Schedule> s = schedule(p);
    ASSERT_TRUE(s);
    expectSound(p, *s);
    EXPECT_LE(double(s->makespan), 1.02 * double(lowerBound(p).value));
  }
}

TEST(Scheduler, latenciesMayOverlap) {
  for (uint64_t seed = 0; seed != 30; ++seed) {
    RandomOptions o = pickOptions(seed);
    o.latency = 0.05;
    ScheduleProblem p = makeProblem(o, seed);
    if (std::optional<Schedule> s = schedule(p))
      expectSound(p, *s);
  }
}

/// A schedule that was chosen among rough ones, or FSDP's, takes less when
/// refined, and no more memory than there is.
TEST(Scheduler, refinesWhatIsGiven) {
  Time saved = 0;
  for (uint64_t seed = 0; seed != 60; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    RandomOptions o = pickOptions(seed);
    o.latency = 0.3;
    ScheduleProblem p = makeProblem(o, seed);
    if (seed % 2)
      p.room = p.budget / 16;
    std::optional<Schedule> rough = scheduleRoughly(p);
    if (!rough)
      continue;
    Schedule fsdp = scheduleLikeFSDP(p, FSDPOptions());
    for (const Schedule &given : {*rough, fsdp}) {
      if (given.peak > p.budget)
        continue;
      Schedule refined = refine(p, given);
      expectSound(p, refined);
      EXPECT_LE(refined.makespan, given.makespan);
      saved += given.makespan - refined.makespan;
    }
    EXPECT_TRUE(schedule(p)->isSameOrder(refine(p, *rough)));
  }
  EXPECT_GT(saved, 0);
}

TEST(Scheduler, overlapsLatenciesOfTwoQueues) {
  // As on very large groups: transfers mostly wait for each other's ranks.
  for (int units : {8, 40}) {
    RandomOptions o;
    o.units = units;
    o.ratio = 1.4;
    o.rooms = 0;
    o.latency = 0.7;
    ScheduleProblem p = makeProblem(o, 1);
    Time total = 0;
    for (const Transfer &t : p.transfers)
      total += t.cost.total();
    std::optional<Schedule> s = schedule(p);
    ASSERT_TRUE(s);
    expectSound(p, *s);
    // One after the other takes `total`.
    EXPECT_LT(s->makespan, total - total / 20);
    EXPECT_LE(double(s->makespan), 1.05 * double(lowerBound(p).value));
  }
}

TEST(Scheduler, sameProblemSameSchedule) {
  for (uint64_t seed = 0; seed != 20; ++seed) {
    ScheduleProblem p = makeProblem(pickOptions(seed), seed);
    std::optional<Schedule> a = schedule(p), b = schedule(p);
    ASSERT_EQ(a.has_value(), b.has_value());
    if (!a)
      continue;
    EXPECT_TRUE(a->line == b->line);
    EXPECT_EQ(a->issue, b->issue);
    EXPECT_EQ(a->place, b->place);
    EXPECT_EQ(a->known, b->known);
    EXPECT_TRUE(a->after == b->after);
  }
}

TEST(Scheduler, saysTheLeastBudget) {
  for (uint64_t seed = 0; seed != 40; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    RandomOptions o = pickOptions(seed);
    o.units = 3 + seed % 3;
    ScheduleProblem p = makeProblem(o, seed);
    p.budget = getLeastBudget(p);
    std::optional<Schedule> s = schedule(p);
    ASSERT_TRUE(s);
    expectSound(p, *s);
    p.budget -= 1;
    EXPECT_FALSE(schedule(p));
    ExactResult none = searchExactly(p);
    EXPECT_TRUE(none.complete);
    EXPECT_FALSE(none.makespan) << "a smaller budget works";
  }
}

TEST(Scheduler, moreBudgetIsNeverSlower) {
  for (uint64_t seed = 0; seed != 40; ++seed) {
    ScheduleProblem p = makeProblem(pickOptions(seed), seed);
    int64_t least = getLeastBudget(p);
    Time last = std::numeric_limits<Time>::max();
    for (int64_t more = 0; more <= 6 << 20; more += 1 << 19) {
      p.budget = least + more;
      std::optional<Schedule> s = schedule(p);
      ASSERT_TRUE(s);
      EXPECT_LE(s->makespan, last) << "seed " << seed << ", " << more;
      last = s->makespan;
    }
  }
}

TEST(Scheduler, threeThousandUnits) {
  for (double rooms : {0.0, 3.0}) {
    RandomOptions o;
    o.units = 3000;
    o.ratio = 1.2;
    o.rooms = rooms;
    ScheduleProblem p = makeProblem(o, 1);
    std::clock_t from = std::clock();
    std::optional<Schedule> s = schedule(p);
    double seconds = double(std::clock() - from) / CLOCKS_PER_SEC;
    ASSERT_TRUE(s);
    expectSound(p, *s);
    // Processor time: other programs on the machine do not count. The figure
    // itself, below a second, is the benchmark's.
    EXPECT_LT(seconds, 10);
  }
}
