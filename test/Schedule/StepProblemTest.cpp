//===- StepProblemTest.cpp - From programs to problems and back -----------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Analysis/Schedule/StepProblem.h"
#include "ConstantCost.h"
#include "SmallPrograms.h"
#include "fsdp/Analysis/Schedule/FSDPSchedules.h"
#include "fsdp/Analysis/Schedule/Makespan.h"
#include "fsdp/Analysis/Schedule/Scheduler.h"

#include "gtest/gtest.h"

#include <map>

using namespace mlir::fsdp;
using namespace mlir::fsdp::sched;
using namespace mlir::fsdp::sched::test;

namespace {
struct StepProblemTest : ::testing::Test {
  ConstantCost cost;
  StepProgram program;
  TimedProgram times;
  StepProblem step;

  void build(StepProgram given) {
    program = std::move(given);
    times = addTimes(program, cost, {GroupPlacement()});
    auto problem = getStepProblem(program, times);
    ASSERT_TRUE(bool(problem)) << llvm::toString(problem.takeError());
    step = std::move(*problem);
  }
  std::map<std::string, OpRole> getRoles() {
    std::map<std::string, OpRole> roles;
    for (size_t i = 0; i != program.ops.size(); ++i)
      if (program.ops[i].kind == StepOpKind::Launch)
        roles[program.ops[i].name] = step.roles[i];
    return roles;
  }
  /// The program that @schedule becomes is in order and takes as long.
  void check(const Schedule &schedule) {
    ASSERT_EQ(checkSchedule(step.problem, schedule), "");
    StepProgram changed = applySchedule(program, step, schedule);
    EXPECT_EQ(checkProgram(changed), "");
    EXPECT_EQ(findBrokenDependency(program, changed), "");
    Timeline timeline = play(addTimes(changed, cost, {GroupPlacement()}));
    EXPECT_EQ(timeline.step,
              simulate(step.problem, schedule).step + step.epilogueTime);
    EXPECT_GE(timeline.step, getStepBound(program, step, times));
  }
  void checkAll() {
    for (int64_t budget : {kNoBudget, getLeastBudget(step.problem)}) {
      step.problem.budget = budget;
      auto best = schedule(step.problem);
      ASSERT_TRUE(best);
      check(*best);
    }
    // FSDP does not look at the budget.
    step.problem.budget = kNoBudget;
    for (BackwardPrefetch prefetch :
         {BackwardPrefetch::None, BackwardPrefetch::Pre,
          BackwardPrefetch::Post}) {
      FSDPOptions options;
      options.backwardPrefetch = prefetch;
      check(scheduleLikeFSDP(step.problem, options));
    }
  }
};
} // namespace

TEST_F(StepProblemTest, tellsRolesApart) {
  build(makeTwoUnitStep());
  std::map<std::string, OpRole> expected = {
      {"f0", OpRole::Spine},     {"f1", OpRole::Spine},
      {"b1", OpRole::Spine},     {"b0", OpRole::Spine},
      {"count", OpRole::Spine},  {"cast", OpRole::Cast},
      {"norm1", OpRole::Tail},   {"norm0", OpRole::Tail},
      {"update1", OpRole::Tail}, {"update0", OpRole::Tail},
      {"norm", OpRole::Tail},    {"root", OpRole::Epilogue}};
  EXPECT_EQ(getRoles(), expected);
  // What only updates need of the arguments does not hold reductions back.
  EXPECT_EQ(program.ops[step.segments.front().front()].name, "count");
  ASSERT_EQ(step.transfers.size(), 5u);
  const auto &transfers = step.problem.transfers;
  Id segments = step.problem.spine.size();
  EXPECT_EQ(transfers[0].queue, Queue::AllGather);
  EXPECT_EQ(transfers[0].ready, -1);
  EXPECT_LT(transfers[2].ready, segments - 1);
  EXPECT_EQ(transfers[4].ready, segments - 1);
  EXPECT_EQ(transfers[0].dstBytes, 400);
  EXPECT_EQ(transfers[2].srcBytes, 400);
  EXPECT_EQ(transfers[2].dstBytes, 100);
  EXPECT_EQ(step.epilogueTime, 2000);
}

TEST_F(StepProblemTest, clippingMakesUpdatesTheEpilogue) {
  build(makeTwoUnitStep(/*clip=*/true));
  auto roles = getRoles();
  EXPECT_EQ(roles["norm"], OpRole::Tail);
  EXPECT_EQ(roles["update0"], OpRole::Epilogue);
  EXPECT_EQ(roles["update1"], OpRole::Epilogue);
  EXPECT_EQ(step.epilogueTime, 3000);
  // Gradients stay for them.
  EXPECT_EQ(step.problem.transfers[2].dstBytes, 0);
}

TEST_F(StepProblemTest, schedulesBecomePrograms) {
  for (bool clip : {false, true}) {
    build(makeTwoUnitStep(clip));
    checkAll();
  }
}

TEST_F(StepProblemTest, boundKnowsWhatStandsBehindTheNorm) {
  build(makeTwoUnitStep(/*clip=*/true));
  // Both updates and the norm's transfer follow all else.
  EXPECT_EQ(getStepBound(program, step, times),
            lowerBound(step.problem).value + 3000);
}

TEST_F(StepProblemTest, anUpdateWaitsForALaterGatherOfItsShard) {
  // The gradient of p is there before p is gathered once more.
  ProgramBuilder b;
  Id p = b.argument(100), g = b.value(400), s = b.value(100);
  Id w = b.value(400, Purpose::Gathered), y = b.value(10), z = b.value(10);
  b.launch("b", {p}, {g});
  b.launch("other", {g}, {y});
  b.gather(p, w);
  b.launch("reader", {w, y}, {z});
  b.scatter(g, s);
  b.launch("update", {s, p}, {b.over(p)});
  build(b.program);
  EXPECT_EQ(step.problem.transfers[1].ready,
            step.problem.transfers[0].firstUse);
  checkAll();
}

TEST_F(StepProblemTest, aTailReadsTheSpine) {
  ProgramBuilder b;
  Id p = b.argument(100), g = b.value(400), s = b.value(100), y = b.value(10);
  b.launch("b", {p}, {g});
  b.scatter(g, s);
  b.launch("own", {g}, {y});
  b.launch("update", {s, p, y}, {b.over(p)});
  build(b.program);
  // The update must find what the last of the spine makes.
  EXPECT_EQ(step.problem.transfers[0].ready, Id(step.problem.spine.size()) - 1);
  checkAll();
}

TEST_F(StepProblemTest, refusesAGatherForTailsAlone) {
  ProgramBuilder b;
  Id p = b.argument(100), w = b.value(400), g = b.value(400), s = b.value(100);
  b.launch("b", {p}, {g});
  b.gather(p, w);
  b.scatter(g, s);
  b.launch("update", {s, w}, {b.value(10)});
  times = addTimes(b.program, cost, {GroupPlacement()});
  auto problem = getStepProblem(b.program, times);
  ASSERT_FALSE(bool(problem));
  EXPECT_EQ(llvm::toString(problem.takeError()),
            "transfer 0: expected a segment that uses what it gathers or "
            "fetches");
}
