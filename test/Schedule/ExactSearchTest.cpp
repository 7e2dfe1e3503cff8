//===- ExactSearchTest.cpp - The best schedule of a small step ------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

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

TEST(ExactSearch, findsTheBestOfTwoUnits) {
  ExactResult result = searchExactly(makeTwoUnits());
  ASSERT_TRUE(result.complete && result.makespan);
  EXPECT_EQ(*result.makespan, 510);
}

TEST(ExactSearch, findsNothingBelowTheBest) {
  ExactResult result = searchExactly(makeTwoUnits(), 510);
  EXPECT_TRUE(result.complete);
  EXPECT_FALSE(result.makespan);
}

TEST(ExactSearch, obeysTheBudget) {
  ScheduleProblem p = makeTwoUnits();
  // b1 and b0 need a unit and an input each.
  p.budget = 210;
  ExactResult result = searchExactly(p);
  ASSERT_TRUE(result.complete && result.makespan);
  // The third gather waits for b1, and b0 for the first reduction as well, on
  // the same link.
  EXPECT_EQ(*result.makespan, 340 + (40 + 60) + 100 + 60 + 10);
  EXPECT_LE(getPeak(p, result.schedule), 210);
  p.budget = 209;
  EXPECT_FALSE(searchExactly(p).makespan);
}

TEST(ExactSearch, saysWhenItGivesUp) {
  ExactResult result =
      searchExactly(makeTwoUnits(), std::numeric_limits<Time>::max(), 3);
  EXPECT_FALSE(result.complete);
}

// The search, the simulation and the peak are three readings of one model.
TEST(ExactSearch, agreesWithSimulationAndPeak) {
  for (uint64_t seed = 1000; seed != 1060; ++seed) {
    RandomOptions o = pickOptions(seed);
    o.units = 3 + seed % 3;
    o.stay = seed % 2;
    ScheduleProblem p = makeProblem(o, seed);
    ExactResult result = searchExactly(p);
    ASSERT_TRUE(result.complete);
    if (!result.makespan)
      continue;
    ASSERT_EQ(checkSchedule(p, result.schedule), "") << "seed " << seed;
    EXPECT_EQ(simulate(p, result.schedule).step, *result.makespan)
        << "seed " << seed;
    EXPECT_LE(getPeak(p, result.schedule), p.budget) << "seed " << seed;
    EXPECT_LE(lowerBound(p).value, *result.makespan) << "seed " << seed;
  }
}
