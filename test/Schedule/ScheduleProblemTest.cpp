//===- ScheduleProblemTest.cpp - Rules and orders of a problem ------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "SmallProblems.h"

#include "gtest/gtest.h"

using namespace mlir::fsdp;
using namespace mlir::fsdp::sched;
using namespace mlir::fsdp::sched::test;

TEST(ScheduleProblem, acceptsTwoUnits) {
  EXPECT_EQ(checkProblem(makeTwoUnits()), "");
}

TEST(ScheduleProblem, refusesWhatBreaksARule) {
  struct Case {
    void (*change)(ScheduleProblem &);
    const char *error;
  } cases[] = {
      {[](ScheduleProblem &p) { p.numLinks = 0; },
       "expected at least 1 link, got 0"},
      {[](ScheduleProblem &p) { p.backwardBegin = 5; },
       "expected backward to begin at a segment up to 4, got 5"},
      {[](ScheduleProblem &p) { p.transfers[1].cost.link = 1; },
       "transfer 1: expected a link below 1, got 1"},
      {[](ScheduleProblem &p) { p.transfers[0].firstUse = -1; },
       "transfer 0: expected uses in order below 4, got -1 to 0"},
      {[](ScheduleProblem &p) {
         p.transfers[0].firstUse = p.transfers[0].lastUse = -1;
       },
       "transfer 0: expected a segment that uses what it gathers or fetches"},
      {[](ScheduleProblem &p) { p.transfers[2].ready = 3; },
       "transfer 2: expected its first use behind segment 3, got 3"},
      {[](ScheduleProblem &p) { p.transfers[3].srcBegin = 3; },
       "transfer 3: expected its input to begin at a segment up to 2, got 3"},
      {[](ScheduleProblem &p) { p.transfers[3].after.push_back(4); },
       "transfer 3: expected transfer 4 earlier in their queue"},
      {[](ScheduleProblem &p) { p.transfers[3].after.push_back(1); },
       "transfer 3: expected to read nothing of queue 1, got transfer 1"},
      {[](ScheduleProblem &p) { p.floating[0].after[0] = 0; },
       "floating op 0: expected a transfer that only tails read, got 0"},
      {[](ScheduleProblem &p) { p.floating[0].before = 0; },
       "floating op 0: expected a cast to read the step's arguments only"},
      {[](ScheduleProblem &p) {
         p.floating[0].afterFloating.push_back(1);
         p.floating[1].afterFloating.push_back(0);
       },
       "expected tails without circles"},
  };
  for (const Case &c : cases) {
    ScheduleProblem p = makeTwoUnits();
    c.change(p);
    EXPECT_EQ(checkProblem(p), c.error);
  }
}

TEST(ScheduleProblem, ordersQueuesByFirstUseAndByReadiness) {
  ScheduleProblem p = makeTwoUnits();
  std::swap(p.transfers[0], p.transfers[2]);
  EXPECT_EQ(getQueueOrder(p, Queue::AllGather), (std::vector<Id>{2, 1, 0}));
  EXPECT_EQ(getQueueOrder(p, Queue::Reduce), (std::vector<Id>{3, 4}));
}

TEST(ScheduleProblem, tailsFollowReductionsAndEachOther) {
  ScheduleProblem p = makeTwoUnits();
  EXPECT_EQ(getTailOrder(p), (std::vector<Id>{0, 1}));
  p.floating[0].afterFloating.push_back(1);
  EXPECT_EQ(getTailOrder(p), (std::vector<Id>{1, 0}));
  EXPECT_EQ(getLastTail(p), (std::vector<int>{-1, -1, -1, 1, 0}));
}

TEST(ScheduleProblem, limitsSayHowFarGathersRunAhead) {
  ScheduleProblem p = makeTwoUnits();
  EXPECT_EQ(getPlaceFloor(p).place, (std::vector<Id>{0, 0, 0, 3, 4}));
  p.limits.forwardPrefetch = 0;
  p.limits.backwardPrefetch = 1;
  PlaceFloor floor = getPlaceFloor(p);
  EXPECT_EQ(floor.place, (std::vector<Id>{0, 1, 2, 3, 4}));
  EXPECT_TRUE(floor.fromLimit[2]);
  EXPECT_FALSE(floor.fromLimit[3]);
  p.limits.backwardPost = true;
  EXPECT_EQ(getPlaceFloor(p).place[2], 3);
  p.limits = {};
  p.limits.inFlight = 2;
  EXPECT_EQ(getPlaceFloor(p).place[2], 1);
}

/// The gather of a secondary shard is a part of its unit's.
TEST(ScheduleProblem, limitsCountUnitsOfSeveralGathersOnce) {
  ScheduleProblem p = makeTwoUnits();
  Transfer first = makeGather(0, 40, 50), second = makeGather(1, 40, 50);
  first.lastUse = 3;
  std::vector<Transfer> &transfers = p.transfers;
  transfers = {first,        transfers[0], second,      transfers[1],
               transfers[2], transfers[3], transfers[4]};
  transfers[1].after = transfers[4].after = {0};
  transfers[3].after = {2};
  for (Id i : {0, 1})
    p.floating[i].after = {5 + i};
  EXPECT_EQ(checkProblem(p), "");
  p.limits.forwardPrefetch = 0;
  p.limits.backwardPrefetch = 1;
  EXPECT_EQ(getPlaceFloor(p).place, (std::vector<Id>{0, 0, 1, 1, 2, 3, 4}));
  p.limits.forwardPrefetch = 1;
  EXPECT_EQ(getPlaceFloor(p).place, (std::vector<Id>{0, 0, 0, 0, 2, 3, 4}));
  p.limits = {};
  p.limits.inFlight = 1;
  EXPECT_EQ(getPlaceFloor(p).place, (std::vector<Id>{0, 0, 1, 1, 3, 3, 4}));
}

TEST(ScheduleProblem, allReduceOnReduceQueueComesBeforeTheNextReduceScatter) {
  ScheduleProblem p = makeTwoUnits();
  Transfer reduce;
  reduce.queue = Queue::AllReduce;
  reduce.after.push_back(3);
  p.transfers.push_back(reduce);
  EXPECT_TRUE(getPredecessors(p)[4].empty());
  p.limits.allReduceOnReduceQueue = true;
  ASSERT_EQ(getPredecessors(p)[4].size(), 1u);
  EXPECT_EQ(getPredecessors(p)[4][0], 5);
}

TEST(ScheduleProblem, anAllReduceThatIsReadyLateKeepsNobodyWaiting) {
  ScheduleProblem p = makeTwoUnits();
  // It also sums what only the last segment computes.
  Transfer reduce;
  reduce.queue = Queue::AllReduce;
  reduce.after.push_back(3);
  reduce.ready = p.transfers[4].ready + 1;
  p.transfers.push_back(reduce);
  Transfer second = reduce;
  second.after = {4};
  second.ready = -1;
  p.transfers.push_back(second);
  p.limits.allReduceOnReduceQueue = true;
  EXPECT_EQ(getQueueOrder(p, Queue::AllReduce), (std::vector<Id>{6, 5}));
  // It stands behind the second: that cannot wait for it.
  EXPECT_TRUE(getPredecessors(p)[4].empty());
}
