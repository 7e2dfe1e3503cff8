//===- BudgetSearchTest.cpp -----------------------------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Planning/BudgetSearch.h"

#include <gtest/gtest.h>

#include <functional>
#include <vector>

using namespace mlir::fsdp::sched;

namespace {
struct Found {
  std::vector<int64_t> tried;
  /// The largest budget of the model whose arena fits; 0: none.
  int64_t best = 0;
};

Found search(int64_t budget, const std::function<int64_t(int64_t)> &pack) {
  Found found;
  BudgetSearch search(budget);
  while (std::optional<int64_t> model = search.getNext()) {
    found.tried.push_back(*model);
    int64_t taken = pack(*model);
    if (taken <= budget)
      found.best = std::max(found.best, *model);
    search.note(*model, taken);
  }
  return found;
}

TEST(BudgetSearch, TakesWhatFitsAtOnce) {
  Found found = search(1000, [](int64_t model) { return model; });
  EXPECT_EQ(found.tried, std::vector<int64_t>{1000});
}

TEST(BudgetSearch, ComesCloseWhereEverythingTakesMoreByTheSamePart) {
  for (double part : {1.001, 1.05, 1.3, 2.0}) {
    Found found = search(
        1 << 20, [&](int64_t model) { return int64_t(double(model) * part); });
    EXPECT_LE(found.tried.size(), 4u) << part;
    EXPECT_GE(double(found.best) * part, (1 << 20) * 0.98) << part;
  }
}

TEST(BudgetSearch, GoesUpAgainWhereItWentTooFar) {
  // From 900 on the plan is another one, and far larger.
  Found found =
      search(1000, [](int64_t model) { return model >= 900 ? 2000 : model; });
  ASSERT_GE(found.tried.size(), 3u);
  EXPECT_EQ(found.tried[1], 500);
  EXPECT_GT(found.best, 500);
}

TEST(BudgetSearch, GoesOnWhereWhatFitsIsSlow) {
  // What fits at once is nearly full: enough, unless it is slow.
  auto pack = [](int64_t model) { return model < 990 ? model + 14 : 1004; };
  for (bool isSlow : {false, true}) {
    BudgetSearch search(1000);
    search.note(*search.getNext(), pack(1000), isSlow);
    int64_t second = *search.getNext();
    ASSERT_LE(pack(second), 1000);
    search.note(second, pack(second), isSlow);
    EXPECT_EQ(search.getNext().has_value(), isSlow);
  }
}

TEST(BudgetSearch, LeavesAPlanThatStaysTheSame) {
  // A little too much down to 700, far less below.
  Found found =
      search(1000, [](int64_t model) { return model > 700 ? 1010 : 800; });
  EXPECT_GT(found.best, 0);
}

TEST(BudgetSearch, GivesUpWhereNothingFits) {
  Found found = search(1000, [](int64_t) { return 5000; });
  EXPECT_EQ(found.best, 0);
  EXPECT_LE(found.tried.size(), 6u);
  // Each budget is smaller than the one before.
  for (size_t i = 1; i < found.tried.size(); ++i)
    EXPECT_LT(found.tried[i], found.tried[i - 1]);
}

TEST(BudgetSearch, StandsBudgetsOfNothing) {
  for (int64_t budget : {-5, 0, 1}) {
    Found found = search(budget, [](int64_t) { return 100; });
    EXPECT_LE(found.tried.size(), 6u) << budget;
    for (int64_t model : found.tried)
      EXPECT_GE(model, 1) << budget;
  }
}
} // namespace
