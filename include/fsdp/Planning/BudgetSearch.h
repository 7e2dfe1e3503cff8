//===- BudgetSearch.h - A budget whose plan fits when packed ----*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_PLANNING_BUDGETSEARCH_H
#define FSDP_PLANNING_BUDGETSEARCH_H

#include <cstdint>
#include <optional>

namespace mlir::fsdp::sched {

/// Looks for the largest budget of the planner's model of memory for which the
/// packed arena fits. What packing takes is not proportional to it, nor always
/// more for more: plans differ in steps. All in bytes.
class BudgetSearch {
public:
  /// @budget: what the arena may take.
  explicit BudgetSearch(int64_t budget);

  /// The next budget to try; none where that would gain little.
  std::optional<int64_t> getNext() const;
  /// What the arena of the plan for the budget @model takes. @isSlow: what
  /// fits so far takes much longer than what did not, so that a little more
  /// memory may do much.
  void note(int64_t model, int64_t taken, bool isSlow = false);

private:
  struct Try {
    int64_t model = 0, taken = 0;
  };
  int64_t budget;
  Try fits, fails;
  int tried = 0, refined = 0;
  bool isOver = false;
};

} // namespace mlir::fsdp::sched

#endif // FSDP_PLANNING_BUDGETSEARCH_H
