//===- PlanSearch.h - The planner -------------------------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Decides what a step keeps, repeats, offloads and groups under a budget. Each
// candidate is scheduled and simulated as the program that it would become, and
// the step as it is is one of them: a plan is never slower than none, if none
// fits.
//
//   1. A step that does not fit repeats launches, at the lowest price of memory
//      at which it does; or keeps values in the host's memory instead, for
//      several prices of time on the host's links.
//   2. Memory that is left holds gathered parameters from forward to backward;
//      where transfers are exposed, more launches are repeated, or more values
//      offloaded, to make room.
//   3. Neighbouring transfers are issued together where their latencies count.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_PLANNING_PLANSEARCH_H
#define FSDP_PLANNING_PLANSEARCH_H

#include "fsdp/Planning/PlanNeeds.h"
#include "fsdp/Planning/PlanRules.h"
#include "fsdp/Schedule/Timeline.h"

#include "llvm/Support/Error.h"

#include <memory>
#include <optional>

namespace mlir::fsdp::sched {

/// What a plan may take.
struct PlanLimits {
  /// Bytes for the arenas of one rank; host 0: no link leads there.
  int64_t device = kNoBudget, host = 0;

  PlanLimits(int64_t device, int64_t host = 0) : device(device), host(host) {}
};

struct PlannedStep {
  StepPlan plan;
  /// Schedule and epilogue; kNever where it does not fit.
  static constexpr Time kNever = std::numeric_limits<Time>::max();
  Time step = kNever;
  /// The smallest budget of the model under which it can be scheduled.
  int64_t leastBytes = 0;
  /// In the order of ops.
  std::vector<PlanDecision> decisions;
  /// The plan in a few sentences; none where it changes nothing.
  std::vector<std::string> summary;
  /// With what is given and what the rules ask, and no more; null there.
  std::shared_ptr<const PlannedStep> plain;

  bool fits() const { return step != kNever; }
};

/// @program is in L2's order. Where no plan fits in @limits the result is the
/// one that needs least. @given: decisions that stand, as do @program's
/// checkpoints, whatever else is decided; where it groups, nothing else is
/// grouped. @needs: of @program, from searches for other budgets, and for them.
/// @threads: whether several may look; the result is the same. Errors are those
/// of getStepProblem and checkPlan, and of rules that the machine cannot
/// follow.
llvm::Expected<PlannedStep>
planStep(const StepProgram &program, const CostModel &cost,
         llvm::ArrayRef<GroupPlacement> placements, const PlanLimits &limits,
         const PlanRules &rules = PlanRules(), const StepPlan *given = nullptr,
         PlanNeeds *needs = nullptr, bool threads = true);

} // namespace mlir::fsdp::sched

#endif // FSDP_PLANNING_PLANSEARCH_H
