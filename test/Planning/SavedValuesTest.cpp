//===- SavedValuesTest.cpp - What forward saves for backward --------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Planning/SavedValues.h"

#include "gtest/gtest.h"

#include <algorithm>
#include <random>

using namespace mlir::fsdp::sched;

namespace {
/// Adds an op with one result, whose index is returned.
int add(SaveProblem &problem, int64_t bytes, std::vector<int> reads,
        bool isRepeatable, double cost = 0) {
  problem.values.push_back({bytes});
  int value = problem.values.size() - 1;
  problem.ops.push_back({std::move(reads), {value}, isRepeatable, cost});
  return value;
}

/// What a choice costs; -1 where it repeats what cannot be.
int64_t getCost(const SaveProblem &problem, const std::vector<bool> &repeated) {
  std::vector<bool> isRead(problem.values.size());
  for (size_t v = 0; v != problem.values.size(); ++v)
    isRead[v] = problem.values[v].isNeeded;
  std::vector<int> maker(problem.values.size(), -1);
  for (size_t o = 0; o != problem.ops.size(); ++o) {
    if (repeated[o] && !problem.ops[o].isRepeatable)
      return -1;
    for (int v : problem.ops[o].results)
      maker[v] = o;
    if (repeated[o])
      for (int v : problem.ops[o].reads)
        isRead[v] = true;
  }
  int64_t cost = 0;
  for (size_t o = 0; o != problem.ops.size(); ++o) {
    const SaveProblem::Op &op = problem.ops[o];
    if (!repeated[o])
      continue;
    cost += int64_t(op.cost) * op.repeats;
    for (int v : op.reads) {
      const SaveProblem::Value &value = problem.values[v];
      if (!value.isReadByLoops &&
          (value.isKept || (maker[v] >= 0 && !repeated[maker[v]])))
        cost += value.bytes * SaveProblem::kMovedByte * op.repeats;
    }
  }
  for (size_t v = 0; v != problem.values.size(); ++v) {
    const SaveProblem::Value &value = problem.values[v];
    if (isRead[v] && !value.isKept && maker[v] >= 0 && !repeated[maker[v]])
      cost +=
          value.bytes * (problem.savedByte +
                         (value.isReadByLoops ? SaveProblem::kMovedByte : 0));
  }
  return cost;
}
} // namespace

TEST(SavedValues, noChoiceIsCheaper) {
  std::mt19937 random(1);
  auto draw = [&](int below) { return int(random() % below); };
  for (int round = 0; round != 3000; ++round) {
    SaveProblem problem;
    int ops = 1 + draw(8);
    for (int o = 0; o != ops; ++o) {
      SaveProblem::Op op;
      for (int v = 0, e = problem.values.size(); v != e; ++v)
        if (draw(3) == 0)
          op.reads.push_back(v);
      for (int i = 0, e = 1 + draw(4) / 3; i != e; ++i) {
        op.results.push_back(problem.values.size());
        problem.values.push_back(
            {draw(6), draw(3) == 0, draw(2) == 0, draw(6) == 0});
      }
      op.isRepeatable = draw(4) != 0;
      op.cost = draw(200);
      op.repeats = 1 + draw(2);
      problem.ops.push_back(op);
    }
    std::vector<bool> found = chooseRepeatedOps(problem);
    int64_t cost = getCost(problem, found);
    ASSERT_GE(cost, 0);
    int fewest = std::count(found.begin(), found.end(), true);
    for (unsigned bits = 0; bits != 1u << ops; ++bits) {
      std::vector<bool> other(ops);
      for (int o = 0; o != ops; ++o)
        other[o] = bits >> o & 1;
      int64_t otherCost = getCost(problem, other);
      if (otherCost < 0)
        continue;
      ASSERT_GE(otherCost, cost);
      if (otherCost == cost) {
        ASSERT_GE(std::count(other.begin(), other.end(), true), fewest);
      }
    }
  }
}

/// silu(g) * u in bfloat16: the products' results are saved, and nothing else.
TEST(SavedValues, activationsAreComputedAgain) {
  constexpr int64_t kElements = 1 << 20;
  SaveProblem problem;
  int g = add(problem, 2 * kElements, {}, false);
  int u = add(problem, 2 * kElements, {}, false);
  int wide = add(problem, 4 * kElements, {g}, true, kElements);
  int silu = add(problem, 2 * kElements, {wide}, true, 25 * kElements);
  int h = add(problem, 2 * kElements, {silu, u}, true, 5 * kElements);
  for (int v : {g, u, wide, silu})
    problem.values[v].isNeeded = problem.values[v].isReadByLoops = true;
  problem.values[h].isNeeded = true;
  EXPECT_EQ(chooseRepeatedOps(problem),
            (std::vector<bool>{false, false, true, true, true}));
}

/// x + a, where neither is needed otherwise: one of three is saved.
TEST(SavedValues, equallyLargeIsSavedAsItIs) {
  SaveProblem problem;
  int x = add(problem, 512, {}, false);
  int sum = add(problem, 512, {x}, true, 128);
  problem.values[sum].isNeeded = true;
  EXPECT_EQ(chooseRepeatedOps(problem), (std::vector<bool>{false, false}));
}

/// What every layer reads is not computed once for each.
TEST(SavedValues, manyRepeatsAreNotWorthIt) {
  SaveProblem problem;
  int positions = add(problem, 8, {}, false);
  problem.values[positions].isKept = true;
  int table = add(problem, 4096, {positions}, true, 1024 * 17);
  problem.values[table].isNeeded = true;
  EXPECT_EQ(chooseRepeatedOps(problem), (std::vector<bool>{false, true}));
  problem.ops[1].repeats = 32;
  EXPECT_EQ(chooseRepeatedOps(problem), (std::vector<bool>{false, false}));
}

/// Sums of sizes that no machine has stay below what is never cut.
TEST(SavedValues, hugeSizesDoNotOverflow) {
  SaveProblem problem;
  constexpr int64_t kHuge = int64_t(1) << 53;
  int x = add(problem, kHuge, {}, false);
  for (int i = 0; i != 100; ++i) {
    int y = add(problem, kHuge, {x}, true, kHuge);
    problem.values[y].isNeeded = true;
  }
  std::vector<bool> repeated = chooseRepeatedOps(problem);
  EXPECT_EQ(std::count(repeated.begin(), repeated.end(), true), 100);
}
