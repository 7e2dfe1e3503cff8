//===- BudgetSearch.cpp - A budget whose plan fits when packed ------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Planning/BudgetSearch.h"

#include <algorithm>

using namespace mlir::fsdp::sched;

/// Budgets until something fits, and from then on.
constexpr int kAttempts = 6, kRefinements = 2;

BudgetSearch::BudgetSearch(int64_t budget)
    : budget(std::max<int64_t>(budget, 1)) {}

std::optional<int64_t> BudgetSearch::getNext() const {
  if (isOver)
    return std::nullopt;
  if (!fails.model)
    return budget;
  // As if all took more by the same part; where that is next to nothing, a
  // little less, and ever more so: the plan may be the same for a while.
  if (!fits.model) {
    int64_t part = int64_t(double(fails.model) * budget / fails.taken);
    int64_t less = (budget / 64 + 1) << (tried - 1);
    return std::max<int64_t>(std::min(part, fails.model - less), 1);
  }
  // Between what fits and what does not, near neither.
  double between = double(budget - fits.taken) /
                   double(std::max<int64_t>(fails.taken - fits.taken, 1));
  return fits.model + int64_t(double(fails.model - fits.model) *
                              std::clamp(between, 0.25, 0.75));
}

void BudgetSearch::note(int64_t model, int64_t taken, bool isSlow) {
  if (taken <= budget) {
    fits = {model, taken};
    refined += fails.model != 0;
  } else {
    fails = {model, taken};
    refined += fits.model != 0;
  }
  ++tried;
  bool isFull = budget - fits.taken < budget / (refined > 1 ? 16 : 128) ||
                fails.model - fits.model < budget / 64;
  bool isClose = fits.model && isFull && !isSlow;
  isOver = isClose || model == 1 || (fits.model && !fails.model) ||
           refined > kRefinements || (!fits.model && tried == kAttempts);
}
