//===- RecomputationTest.cpp - What backward computes again ---------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Planning/Recomputation.h"
#include "../Schedule/ConstantCost.h"
#include "RandomSteps.h"

#include "gtest/gtest.h"

using namespace mlir::fsdp;
using namespace mlir::fsdp::sched;
using namespace mlir::fsdp::sched::test;

namespace {
/// Kernels whose times differ.
struct NamedCost : ConstantCost {
  Time kernel(const KernelCost &cost) const override {
    return 500 + 37 * (cost.bytes % 29);
  }
};

struct Oracle {
  const StepProgram &program;
  const TimedProgram &times;
  double price;
  /// By value: the cost of keeping it elsewhere; negative: there is no such
  /// way.
  std::vector<double> elsewhere;
  std::vector<Id> stretch = getStretches(program, times);
  PlanChoices choices = getPlanChoices(program);
  std::vector<Id> maker;
  std::vector<bool> isHandedOn, isNeeded;
  std::vector<Id> candidates;

  Oracle(const StepProgram &p, const TimedProgram &t, double price,
         std::vector<double> elsewhere)
      : program(p), times(t), price(price), elsewhere(std::move(elsewhere)),
        maker(p.values.size(), -1), isHandedOn(p.values.size()),
        isNeeded(p.values.size()) {
    Id last = *std::max_element(stretch.begin(), stretch.end());
    for (size_t i = 0; i != p.ops.size(); ++i)
      for (const ByteRange &range : p.ops[i].writes)
        if (maker[range.value] < 0)
          maker[range.value] = i;
    for (size_t i = 0; i != p.ops.size(); ++i) {
      for (const ByteRange &range : p.ops[i].reads)
        if (Id from = maker[range.value]; from >= 0 && stretch[from] >= 0) {
          isNeeded[range.value] = isNeeded[range.value] || p.ops[i].backward;
          isHandedOn[range.value] =
              isHandedOn[range.value] ||
              (stretch[i] >= 0 && stretch[i] != stretch[from]);
        }
      if (choices.canRecompute[i] && stretch[i] >= 0 && stretch[i] != last)
        candidates.push_back(i);
    }
  }

  bool isMoved(Id launch) const {
    for (const StepOp &op : program.ops)
      for (const ByteRange &range : op.reads)
        if (!op.backward && maker[range.value] == launch)
          return false;
    return true;
  }
  double getKeepCost(Id value) const {
    double cost = price * double(program.values[value].bytes);
    return elsewhere[value] < 0 ? cost : std::min(cost, elsewhere[value]);
  }
  /// Repeating the candidates of @mask; keeping all else that is needed.
  int64_t getCost(unsigned mask) const {
    std::vector<bool> repeated(program.ops.size());
    int64_t cost = 0;
    std::vector<bool> needed = isNeeded;
    for (size_t c = 0; c != candidates.size(); ++c)
      if (mask >> c & 1) {
        repeated[candidates[c]] = true;
        cost += isMoved(candidates[c]) ? 1 : times.ops[candidates[c]].work;
        for (const ByteRange &range : program.ops[candidates[c]].reads)
          needed[range.value] = true;
      }
    for (size_t v = 0; v != program.values.size(); ++v)
      if (needed[v] && maker[v] >= 0 && stretch[maker[v]] >= 0 &&
          (isHandedOn[v] || !repeated[maker[v]]))
        cost += std::llround(getKeepCost(v));
    return cost;
  }
};
} // namespace

TEST(Recomputation, isTheCheapestOfAllChoices) {
  std::mt19937 random(7);
  int repeats = 0, compared = 0, offloads = 0;
  for (int round = 0; round != 300; ++round) {
    StepProgram program = makeRandomStep(random, 4 + random() % 2, 3);
    NamedCost cost;
    for (KernelCost &kernel : program.kernels)
      kernel.bytes = random() % 1000;
    TimedProgram times = addTimes(program, cost, {GroupPlacement()});
    PlanChoices choices = getPlanChoices(program);
    Recomputation recomputation(program, times, choices);
    for (double price : {0.0, 0.7, 3.0, 9.0, 1e4}) {
      std::vector<double> elsewhere(program.values.size(), -1);
      for (double &cost : elsewhere)
        if (round % 2 && random() % 3 == 0)
          cost = double(random() % 2000);
      Oracle oracle(program, times, price, elsewhere);
      if (oracle.candidates.size() > 14)
        continue;
      Recomputation::Choice choice = recomputation.choose({price, elsewhere});
      const std::vector<bool> &chosen = choice.recompute;
      for (size_t v = 0; v != program.values.size(); ++v)
        if (choice.offload[v]) {
          EXPECT_FALSE(chosen[v]);
          EXPECT_LT(oracle.getKeepCost(v),
                    price * double(program.values[v].bytes));
          ++offloads;
        }
      unsigned mask = 0;
      for (size_t c = 0; c != oracle.candidates.size(); ++c)
        for (const ByteRange &range : program.ops[oracle.candidates[c]].writes)
          if (chosen[range.value])
            mask |= 1u << c;
      int64_t least = oracle.getCost(0);
      for (unsigned other = 0; other < 1u << oracle.candidates.size(); ++other)
        least = std::min(least, oracle.getCost(other));
      EXPECT_EQ(oracle.getCost(mask), least) << "round " << round;
      StepPlan plan(program);
      plan.recompute = chosen;
      EXPECT_EQ(checkPlan(program, plan), "");
      if (price == 0) {
        EXPECT_EQ(mask, 0u);
      }
      ++compared;
      repeats += __builtin_popcount(mask);
    }
  }
  EXPECT_GT(compared, 1000);
  EXPECT_GT(repeats, 1000);
  EXPECT_GT(offloads, 500);
}

TEST(Recomputation, stretchesCoverForwardInOrder) {
  std::mt19937 random(3);
  for (int round = 0; round != 100; ++round) {
    StepProgram program = makeRandomStep(random, 1 + random() % 8, 6);
    NamedCost cost;
    TimedProgram times = addTimes(program, cost, {GroupPlacement()});
    std::vector<Id> stretch = getStretches(program, times);
    Id last = 0;
    for (size_t i = 0; i != program.ops.size(); ++i) {
      bool isForward =
          !program.ops[i].backward && program.ops[i].kind == StepOpKind::Launch;
      EXPECT_EQ(stretch[i] >= 0, isForward);
      if (!isForward)
        continue;
      EXPECT_GE(stretch[i], last);
      EXPECT_LE(stretch[i], last + 1);
      last = stretch[i];
    }
  }
}
