//===- StepFit.h - The plan and order whose arena fits ----------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The planner's model of memory knows which buffers live at once, not the gaps
// that packing leaves between them. So plans are made for several budgets of
// the model until one fits when it is packed.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_PLANNING_STEPFIT_H
#define FSDP_PLANNING_STEPFIT_H

#include "fsdp/Planning/PlanSearch.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/Error.h"

#include <cstdint>
#include <limits>
#include <optional>

namespace mlir::fsdp::sched {

/// What an order is made for, in bytes by the model: what it may take, or as
/// few as there can be, and what it leaves free wherever it can do without.
struct OrderLimits {
  int64_t budget = 0, room = 0;
};

/// A step that can be planned and ordered again and again, the same for the
/// same budgets.
class StepTrials {
public:
  struct Outcome {
    /// What the packed arena takes.
    int64_t bytes = 0;
    Time time = 0;
    /// No order of the same plan takes less.
    Time bound = 0;
    /// The same for the same order of the same plan.
    size_t number = 0;
    bool operator==(const Outcome &o) const {
      return bytes == o.bytes && time == o.time;
    }
  };
  virtual ~StepTrials() = default;
  struct Planned {
    /// If not, the plan is the one that needs least.
    bool fits = false;
    /// As the search for plans has ordered it.
    Time time = kNever;
    /// The same of the step without changes; what that needs by the model, and
    /// whether that is the plan.
    Time plain = kNever;
    int64_t plainBytes = 0;
    bool isPlain = false;
    /// What it does of that which plans differ in, where no rule asks for it.
    llvm::SmallVector<PlanDecision::Kind> kinds;
  };
  static constexpr Time kNever = std::numeric_limits<Time>::max();
  /// Plans the step for @budget bytes by the model of memory.
  virtual llvm::Expected<Planned> plan(int64_t budget) = 0;
  /// The same, where the search leaves out one kind of decisions.
  virtual llvm::Expected<Planned> planWithout(PlanDecision::Kind kind,
                                              int64_t budget) = 0;
  /// Goes on with the step without changes, as plan() found it for @budget.
  virtual llvm::Error planPlainly(int64_t budget) = 0;
  /// Orders what was planned last, as well as plans are compared by, and packs
  /// its arena.
  virtual llvm::Expected<Outcome> order(const OrderLimits &limits) = 0;
  /// The same as FSDP does, which looks at no budget; none where that takes
  /// @below or more, or by the model more than @most bytes.
  virtual llvm::Expected<std::optional<Outcome>> orderLikeFSDP(int64_t most,
                                                               Time below) = 0;
  /// What was ordered last is the best so far.
  virtual void keep() = 0;
  /// Orders with all care what led to the outcome of that number, and packs it.
  virtual Outcome refine(size_t number) = 0;
};

struct StepFit {
  /// What the arena takes that was kept last; 0: none fits.
  int64_t bytes = 0;
  /// Where none fits: what the smallest arena takes that was found. It depends
  /// on the step alone; no budget above it is refused, and the next smaller one
  /// is.
  int64_t leastBudget = 0;

  bool fits() const { return bytes > 0; }
};

/// Looks for the fastest step whose arena takes at most @budget bytes: near the
/// largest budget of the model for which it fits, down to what needs least.
llvm::Expected<StepFit> fitStep(StepTrials &trials, int64_t budget);

} // namespace mlir::fsdp::sched

#endif // FSDP_PLANNING_STEPFIT_H
