//===- StepProblemTest.cpp - From programs to problems and back -----------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Schedule/StepProblem.h"
#include "ConstantCost.h"
#include "SmallPrograms.h"
#include "fsdp/Schedule/FSDPSchedules.h"
#include "fsdp/Schedule/Makespan.h"
#include "fsdp/Schedule/SchedulePeak.h"
#include "fsdp/Schedule/Scheduler.h"
#include "fsdp/Schedule/StepSchedule.h"

#include "gtest/gtest.h"

#include <map>
#include <random>

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
  // Gradients stay for them, from their reductions on.
  EXPECT_EQ(step.problem.transfers[2].dstBytes, 100);
  EXPECT_TRUE(step.problem.transfers[2].stays);
  build(makeTwoUnitStep());
  EXPECT_FALSE(step.problem.transfers[2].stays);
}

TEST_F(StepProblemTest, whoWritesOverWhatATailReadsComesBehindIt) {
  // A parameter that is not sharded has its gradient at once, but its update
  // also advances the counter that the other one reads.
  ProgramBuilder b;
  Id p = b.argument(100), whole = b.argument(50), count = b.argument(4);
  Id g = b.value(400), s = b.value(100), h = b.value(50), d = b.value(10);
  b.launch("b1", {p}, {g, d}, true);
  b.scatter(g, s);
  b.launch("update", {s, p, count}, {b.over(p)}, true);
  b.launch("b0", {d}, {h}, true);
  b.launch("updateWhole", {h, whole, count}, {b.over(whole), b.over(count)},
           true);
  build(b.program);
  EXPECT_EQ(getRoles()["b0"], OpRole::Spine);
  EXPECT_EQ(getRoles()["updateWhole"], OpRole::Tail);
  checkAll();
}

TEST_F(StepProblemTest, whatUpdatesNeedIsThereInTime) {
  // Of two updates the one of a parameter that is not sharded is part of the
  // spine, and reads what all of them need, too: that is made first.
  ProgramBuilder b;
  Id p = b.argument(100), whole = b.argument(50), count = b.argument(4);
  Id g = b.value(400), s = b.value(100), h = b.value(50), d = b.value(10),
     scale = b.value(4);
  b.launch("b1", {p}, {g, d}, true);
  b.scatter(g, s);
  b.launch("b0", {d}, {h}, true);
  b.launch("count", {count}, {scale, b.over(count)}, true);
  b.launch("updateWhole", {h, whole, scale}, {b.over(whole)}, true);
  b.launch("update", {s, p, scale}, {b.over(p)}, true);
  build(b.program);
  EXPECT_EQ(getRoles()["updateWhole"], OpRole::Spine);
  EXPECT_EQ(getRoles()["update"], OpRole::Tail);
  EXPECT_EQ(program.ops[step.segments.front().front()].name, "count");
  // The reduction begins when its input is there, beside b0.
  EXPECT_LT(step.problem.transfers[0].ready, Id(step.segments.size()) - 1);
  checkAll();
}

TEST_F(StepProblemTest, boundKnowsWhatIsAheadOfTheEpilogueOnItsQueue) {
  cost.computeLoss = 256;
  ProgramBuilder b;
  Id p = b.argument(100), loss = b.value(4), mean = b.value(4),
     g = b.value(400), s = b.value(100), n = b.value(4), sum = b.value(4);
  b.launch("f", {p}, {loss});
  b.reduce(loss, mean);
  b.launch("b", {p}, {g}, true);
  b.scatter(g, s);
  b.launch("norm", {s}, {n}, true);
  b.reduce(n, sum);
  b.launch("root", {sum}, {b.value(4)}, true);
  build(b.program);
  ASSERT_EQ(step.roles.back(), OpRole::Epilogue);
  // The norm does not need the mean of the losses; but beside its all_reduce
  // backward is slower, and without both there is no end.
  TimedProgram timed =
      addTimes(applySchedule(program, step, *schedule(step.problem)), cost,
               {GroupPlacement()});
  EXPECT_NEAR(getStepBound(program, step, times), play(timed).step, 2);
}

TEST_F(StepProblemTest, whatTailsMakeForEachOtherIsThereInTurn) {
  ProgramBuilder b;
  Id p = b.argument(100), y = p;
  for (int u = 0; u != 3; ++u) {
    Id g = b.value(400), s = b.value(100), own = b.value(30), next = b.value(4);
    b.launch("b", {p, y}, {g, next}, true);
    b.scatter(g, s);
    b.launch("split", {s}, {own}, true);
    b.launch("update", {own, s}, {b.value(20)}, true);
    y = next;
  }
  build(b.program);
  EXPECT_EQ(step.tailBytes, 50);
  checkAll();
}

TEST_F(StepProblemTest, longStretchesHavePlacesForTransfers) {
  // Compute does not wait for the mean of the losses, but is slower beside it:
  // it had better run into the reduction, which compute does wait for.
  cost.computeLoss = 256;
  cost.transferCost = {9990, 10, Link::Intra};
  ProgramBuilder b;
  Id p = b.argument(100), y = b.value(10);
  b.launch("f", {p}, {y});
  b.reduce(y, b.value(10));
  for (int i = 0; i != 30; ++i) {
    Id next = b.value(10);
    b.launch("b", {y}, {next}, true);
    y = next;
  }
  Id s = b.value(10);
  b.scatter(y, s);
  b.launch("update", {s, p}, {b.over(p)}, true);
  build(b.program);
  EXPECT_EQ(step.segments.size(), 31u);
  auto best = schedule(step.problem);
  ASSERT_TRUE(best);
  // All kernels and the reduction: nothing is lost but the link's 10 ps.
  EXPECT_NEAR(double(best->makespan), 32 * 1000 + 10000, 10);
  checkAll();
}

TEST_F(StepProblemTest, copiesOfTheEndComeBehindAllElse) {
  ProgramBuilder b;
  Id p = b.argument(100), state = b.argument(8), next = b.value(8);
  Id g = b.value(400), s = b.value(100);
  b.launch("b", {p, state}, {g, next});
  b.scatter(g, s);
  b.launch("update", {s, p}, {b.over(p)});
  build(b.program);
  Time without = getStepBound(program, step, times);
  b.launch("keep", {next}, {b.over(state)});
  StepOp &keep = b.program.ops.back();
  keep.kind = StepOpKind::Copy;
  keep.copiedBytes = 16;
  keep.replaces = 0;
  build(b.program);
  EXPECT_EQ(step.roles.back(), OpRole::Epilogue);
  EXPECT_EQ(getStepBound(program, step, times), without + step.epilogueTime);
  EXPECT_GT(step.epilogueTime, 0);
}

TEST_F(StepProblemTest, boundKnowsWhatTheEpilogueNeedsOfTheSpine) {
  // Of a parameter that every rank has whole, the end of the spine squares the
  // gradient for the norm, while that of the other one is reduced, and updates
  // it.
  ProgramBuilder b;
  Id p = b.argument(100), own = b.argument(50), y = b.value(10),
     g = b.value(400), s = b.value(100), n = b.value(4), square = b.value(4);
  b.launch("b", {p, own}, {g, y}, true);
  b.scatter(g, s);
  b.launch("square", {y}, {square}, true);
  b.launch("update own", {y, own}, {b.over(own)}, true);
  b.launch("norm", {s}, {n}, true);
  b.reduce(n, b.value(4));
  StepOp &norm = *std::find_if(
      b.program.ops.rbegin(), b.program.ops.rend(),
      [](const StepOp &op) { return op.kind == StepOpKind::Start; });
  norm.reads.push_back({square, b.program.values[square].offset, 4});
  b.launch("update", {s, p}, {b.over(p)}, true);
  build(b.program);
  ASSERT_EQ(step.epilogue.size(), 1u);
  auto best = schedule(step.problem);
  ASSERT_TRUE(best);
  // All but the updates has to come before the norm's transfer, and that is
  // longer than they are.
  Time transfer = times.ops[step.epilogue.front()].cost.total();
  EXPECT_GT(getStepBound(program, step, times), transfer + 2 * 1000);
  EXPECT_LE(getStepBound(program, step, times),
            best->makespan + step.epilogueTime);
  checkAll();
}

TEST_F(StepProblemTest, aReductionNeedNotWaitForWhatItsTailWaitsFor) {
  // The gradient of p is there before p is gathered once more: the reduction
  // could run beside the gather, only the update has to come behind it.
  ProgramBuilder b;
  Id p = b.argument(100), g = b.value(400), s = b.value(100);
  Id w = b.value(400, Purpose::Gathered), y = b.value(10), z = b.value(10);
  b.launch("b", {p}, {g});
  b.scatter(g, s);
  b.launch("other", {g}, {y});
  b.gather(p, w);
  b.launch("reader", {w, y}, {z});
  b.launch("update", {s, p}, {b.over(p)});
  build(b.program);
  EXPECT_TRUE(step.isHeld);
  // As it stands: that, too, is an order.
  EXPECT_LE(getStepBound(program, step, times), play(times).step);
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

/// A step like L2's, with everything drawn: casts, second gathers before or
/// behind the reduction, all_reduces behind it, tails that read the spine or
/// each other, a counter, clipping, a transfer that nothing needs.
static StepProgram makeRandomStep(std::mt19937 &random) {
  auto draw = [&](int from, int to) {
    return std::uniform_int_distribution<int>(from, to)(random);
  };
  auto flip = [&] { return draw(0, 1) == 1; };
  ProgramBuilder b;
  int units = draw(1, 4);
  bool clip = flip(), hybrid = flip(), narrow = flip();
  std::vector<Id> shards, activations = {b.argument(draw(1, 50))};
  for (int u = 0; u != units; ++u)
    shards.push_back(b.argument(draw(1, 9) * 10));
  Id count = b.argument(4);
  auto gather = [&](int u, bool backward) {
    Id sent = shards[u];
    if (narrow) {
      sent = b.value(draw(1, 40));
      b.launch("cast", {shards[u]}, {sent}, backward);
    }
    Id whole = b.value(draw(1, 400), Purpose::Gathered);
    b.gather(sent, whole, backward);
    return whole;
  };
  std::vector<Id> kept;
  for (int u = 0; u != units; ++u) {
    kept.push_back(gather(u, false));
    Id next = b.value(draw(1, 100));
    b.launch("f", {activations.back(), kept.back()}, {next});
    activations.push_back(next);
  }
  if (flip())
    b.reduce(activations.back(), b.value(4));
  Id scale = -1, flow = activations.back();
  if (flip()) {
    scale = b.value(4);
    b.launch("count", {count}, {scale, b.over(count)}, true);
  }
  std::vector<Id> norms, gradients;
  for (int u = units; u-- != 0;) {
    Id whole = flip() ? kept[u] : gather(u, true);
    Id gradient = b.value(draw(1, 400), Purpose::Gradients), own = b.value(4);
    Id next = b.value(draw(1, 100));
    b.launch("b", {flow, activations[u], whole}, {gradient, next, own}, true);
    flow = next;
    Id sum = b.value(draw(1, 100), Purpose::Gradients);
    b.scatter(gradient, sum);
    if (hybrid) {
      Id all = flip() ? b.over(sum) : b.value(draw(1, 100));
      b.reduce(sum, all);
      sum = all;
    }
    gradients.push_back(sum);
    // What is read of the parameters behind their reduction.
    if (flip()) {
      Id late = gather(u, true), last = b.value(10);
      b.launch("late", {flow, late}, {last}, true);
      flow = last;
    }
    Id norm = b.value(4);
    b.launch("norm", {sum}, {norm}, true);
    norms.push_back(norm);
    llvm::SmallVector<Id> reads = {sum, shards[u]};
    if (scale >= 0)
      reads.push_back(scale);
    if (flip())
      reads.push_back(own);
    if (flip())
      reads.push_back(norms[draw(0, norms.size() - 1)]);
    if (!clip)
      b.launch("update", reads, {b.over(shards[u])}, true);
  }
  Id norm = b.value(4), total = b.value(4);
  b.launch("sum", norms, {norm}, true);
  if (clip || flip())
    b.reduce(norm, total);
  if (clip)
    for (int u = 0; u != units; ++u)
      b.launch("update", {gradients[units - 1 - u], shards[u], total},
               {b.over(shards[u])}, true);
  return b.program;
}

TEST_F(StepProblemTest, randomSteps) {
  for (unsigned seed = 0; seed != 300; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    build(makeRandomStep(random));
    ASSERT_EQ(checkProgram(program), "");
    checkAll();
    if (HasFailure())
      return;
  }
}

/// Also of the epilogue, which the problem's own checks do not see.
TEST_F(StepProblemTest, refusesTimesThatTheClockCannotHold) {
  auto getError = [&](StepProgram given) {
    program = std::move(given);
    times = addTimes(program, cost, {GroupPlacement()});
    auto problem = getStepProblem(program, times);
    return problem ? "none" : llvm::toString(problem.takeError());
  };
  cost.kernelTime = 700'000'000'000'000;
  EXPECT_EQ(getError(makeTwoUnitStep()), "none");
  cost.transferCost.work = cost.kernelTime + 1'000'000'000'000;
  EXPECT_EQ(getError(makeTwoUnitStep()),
            "expected all_gather to take at most 700 s, got 701 s by the "
            "cluster file, its table or the profile");
  // Updates of clipped gradients, each of which is within the range.
  cost = ConstantCost();
  ProgramBuilder b;
  Id p = b.argument(8), y = b.value(8), sum = b.value(8);
  b.launch("f", {p}, {y});
  b.reduce(y, sum);
  for (int i = 0; i != 200; ++i)
    b.launch("update", {sum}, {b.value(8)}, true);
  EXPECT_EQ(getError(b.program), "none");
  cost.kernelTime = 600'000'000'000'000;
  EXPECT_EQ(getError(b.program),
            "expected the step's kernels and transfers to take at most 100000 "
            "s one after the other, got more by the cluster file, its table or "
            "the profile");
}

TEST_F(StepProblemTest, whoReadsWhatIsGatheredHasAPlace) {
  ProgramBuilder b;
  Id p = b.argument(100), w = b.value(400), g = b.value(400), s = b.value(100);
  b.launch("b", {p}, {g});
  b.gather(p, w);
  b.scatter(g, s);
  b.launch("update", {s, w}, {b.value(10)});
  build(b.program);
  EXPECT_EQ(getRoles()["update"], OpRole::Spine);
  checkAll();
}

/// Backward reads a count of all ranks, as fused kernels do that divide by it.
TEST_F(StepProblemTest, backwardReadsAReduction) {
  ProgramBuilder b;
  Id p = b.argument(100), w = b.value(400, Purpose::Gathered), n = b.value(8),
     all = b.value(8), twice = b.value(8), d = b.value(60), g = b.value(400),
     s = b.value(100);
  b.gather(p, w);
  b.launch("forward", {w}, {n});
  b.reduce(n, all);
  b.launch("count", {all}, {twice});
  b.launch("fused", {w, twice}, {d});
  b.launch("backward", {w, d}, {g});
  b.scatter(g, s);
  b.launch("update", {s, all, p}, {b.over(p)});
  build(b.program);
  std::map<std::string, OpRole> expected = {{"forward", OpRole::Spine},
                                            {"count", OpRole::Spine},
                                            {"fused", OpRole::Spine},
                                            {"backward", OpRole::Spine},
                                            {"update", OpRole::Tail}};
  EXPECT_EQ(getRoles(), expected);
  // The count is there until the last update has read it.
  const Transfer &reduction = step.problem.transfers[1];
  EXPECT_EQ(reduction.queue, Queue::AllReduce);
  EXPECT_EQ(reduction.firstUse, reduction.ready + 1);
  EXPECT_EQ(reduction.lastUse, Id(step.problem.spine.size()) - 1);
  checkAll();
}
