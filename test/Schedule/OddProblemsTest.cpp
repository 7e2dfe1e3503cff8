//===- OddProblemsTest.cpp - Steps that no model has ----------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Whatever checkProblem lets through is scheduled soundly: steps of a few
// segments, with transfers of any queue, link, size and use.
//
//===----------------------------------------------------------------------===//

#include "fsdp/Schedule/ExactSearch.h"
#include "fsdp/Schedule/FSDPSchedules.h"
#include "fsdp/Schedule/LowerBound.h"
#include "fsdp/Schedule/Makespan.h"
#include "fsdp/Schedule/SchedulePeak.h"
#include "fsdp/Schedule/Scheduler.h"

#include "gtest/gtest.h"

#include <algorithm>
#include <random>

using namespace mlir::fsdp;
using namespace mlir::fsdp::sched;

namespace {
constexpr Time kForever = std::numeric_limits<Time>::max();

class Maker {
public:
  explicit Maker(uint64_t seed) : engine(seed * 0x9E3779B97F4A7C15 + 1) {}
  ScheduleProblem make();

private:
  int64_t below(int64_t n) { return n > 0 ? engine() % n : 0; }
  bool once(int in) { return below(in) == 0; }
  Time time() { return once(6) ? 0 : 1000 * (1 + below(8)); }
  int64_t bytes() { return once(3) ? 0 : below(10); }
  void addTransfer(ScheduleProblem &p);
  void addFloating(ScheduleProblem &p);

  std::mt19937_64 engine;
};
} // namespace

void Maker::addTransfer(ScheduleProblem &p) {
  constexpr Queue kQueues[] = {Queue::AllGather, Queue::Reduce,
                               Queue::AllReduce, Queue::D2H, Queue::H2D};
  Id segments = p.spine.size();
  Transfer t;
  t.queue = kQueues[below(std::size(kQueues))];
  t.cost = {once(3) ? time() : 0, time(), Id(below(p.numLinks))};
  t.ready = once(2) ? -1 : below(segments);
  if (isFetch(t.queue) || once(3)) {
    t.firstUse = t.ready + 1 + below(segments - t.ready - 1);
    t.lastUse = t.firstUse + below(segments - t.firstUse);
    if (t.firstUse >= segments)
      t.firstUse = t.lastUse = -1;
  }
  t.dstBytes = bytes();
  if (t.ready >= 0 && once(2)) {
    t.srcBytes = bytes();
    t.srcBegin = below(t.ready + 1);
  }
  for (Id a = 0, e = p.transfers.size(); a != e; ++a)
    if (once(3))
      t.after.push_back(a);
  p.transfers.push_back(t);
}

void Maker::addFloating(ScheduleProblem &p) {
  FloatingOp op;
  op.work = time();
  if (Id t = below(p.transfers.size());
      !p.transfers.empty() && isFetch(p.transfers[t].queue)) {
    op.before = t;
    op.heldBytes = bytes();
  } else {
    for (Id t = 0, e = p.transfers.size(); t != e; ++t)
      if (p.transfers[t].firstUse < 0 && once(2))
        op.after.push_back(t);
    for (Id f = 0, e = p.floating.size(); f != e; ++f)
      if (p.floating[f].before < 0 && once(3))
        op.afterFloating.push_back(f);
  }
  p.floating.push_back(op);
}

ScheduleProblem Maker::make() {
  ScheduleProblem p;
  for (int i = below(6); i-- > 0;)
    p.spine.push_back({time(), bytes()});
  p.backwardBegin = below(p.spine.size() + 1);
  p.numLinks = 1 + below(3);
  for (int i = below(7); i-- > 0;)
    addTransfer(p);
  for (int i = below(4); i-- > 0;)
    addFloating(p);
  if (once(3))
    p.limits.inFlight = 1 + below(2);
  if (once(3))
    p.limits.forwardPrefetch = below(2);
  if (once(3)) {
    p.limits.backwardPrefetch = below(2);
    p.limits.backwardPost = once(2);
  }
  p.limits.allReduceOnReduceQueue = once(3);
  p.fixedBytes = below(3);
  return p;
}

/// What holds for any legal schedule. @bound: no schedule takes less.
static void expectLegal(const ScheduleProblem &p, const Schedule &s,
                        Time bound) {
  ASSERT_EQ(checkSchedule(p, s), "");
  Simulation sim = simulate(p, s);
  int64_t peak = getPeak(p, s);
  EXPECT_LE(sim.peak, peak);
  if (peak <= p.budget)
    EXPECT_GE(sim.step, bound);
  std::vector<int64_t> peaks = getPeaks(p, s);
  if (!peaks.empty())
    EXPECT_EQ(*std::max_element(peaks.begin(), peaks.end()), peak);
}

TEST(OddProblems, areScheduledOrRefused) {
  int scheduled = 0, refused = 0;
  for (uint64_t seed = 0; seed != 6000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    ScheduleProblem p = Maker(seed).make();
    if (!checkProblem(p).empty()) {
      ++refused;
      continue;
    }
    ++scheduled;
    int64_t least = getLeastBudget(p);
    std::optional<Schedule> plenty = schedule(p);
    ASSERT_TRUE(plenty);
    for (int64_t budget : {least - 1, least, (least + plenty->peak) / 2}) {
      p.budget = budget;
      std::optional<Schedule> s = schedule(p);
      EXPECT_EQ(s.has_value(), budget >= least);
      if (!s)
        continue;
      Time bound = raiseBound(p, lowerBound(p).value, kForever);
      expectLegal(p, *s, bound);
      EXPECT_EQ(s->peak, getPeak(p, *s));
      EXPECT_EQ(s->makespan, simulate(p, *s).step);
      expectLegal(p, *plenty, bound);
      for (bool gathersFirst : {false, true}) {
        FSDPOptions theirs;
        theirs.gathersFirst = gathersFirst;
        theirs.allReduceOnReduceQueue = p.limits.allReduceOnReduceQueue;
        Schedule other = orderLikeFSDP(p, theirs);
        if (checkSchedule(p, other).empty())
          expectLegal(p, other, bound);
      }
      ExactResult best = searchExactly(p, kForever, 2'000);
      if (best.makespan)
        expectLegal(p, best.schedule, bound);
    }
  }
  EXPECT_GE(scheduled, 1500);
  EXPECT_GE(refused, 1500);
}
