//===- ProgramTrials.h - Plans of a program, packed -------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_PLANNING_PROGRAMTRIALS_H
#define FSDP_PLANNING_PROGRAMTRIALS_H

#include "fsdp/Planning/PlanSearch.h"
#include "fsdp/Planning/StepFit.h"
#include "fsdp/Schedule/StepProblem.h"

#include <map>

namespace mlir::fsdp::sched {

/// A step planned, ordered and packed without IR, by the functions that
/// fsdp-plan-step, fsdp-schedule-step and fsdp-plan-arena call: with the plan
/// and order that were kept last, these make the same step.
class ProgramTrials : public StepTrials {
public:
  struct Plan {
    PlannedStep planned;
    /// With the plan applied, and what there is to order in it.
    StepProgram program;
    StepProblem step;
    /// Of the model, for which it was planned.
    int64_t budget = 0;
    /// The same for equal plans.
    size_t number = 0;
    /// No order takes less.
    Time bound = 0;
  };

  /// All that is given must outlive it. @hostBudget: bytes of the host. @given:
  /// decisions that stand in each plan, or null.
  ProgramTrials(const StepProgram &program, const CostModel &cost,
                llvm::ArrayRef<GroupPlacement> placements, int64_t hostBudget,
                const PlanRules &rules, const StepPlan *given = nullptr)
      : program(program), cost(cost), placements(placements),
        hostBudget(hostBudget), rules(rules), given(given) {}

  llvm::Expected<Planned> plan(int64_t budget) override;
  llvm::Expected<Planned> planWithout(PlanDecision::Kind kind,
                                      int64_t budget) override;
  llvm::Error planPlainly(int64_t budget) override;
  llvm::Expected<Outcome> order(const OrderLimits &limits) override;
  llvm::Expected<std::optional<Outcome>> orderLikeFSDP(int64_t most,
                                                       Time below) override;
  void keep() override {
    best = last;
    bestSchedule = lastSchedule;
    bestLimits = lastLimits;
    bestOutcome = lastOutcome;
  }
  Outcome refine(size_t number) override;

  /// What was planned last.
  const Plan &getLast() const { return *last; }
  /// What was kept last.
  const Plan &getBest() const { return *best; }
  const Schedule &getBestSchedule() const { return bestSchedule; }
  const OrderLimits &getBestLimits() const { return bestLimits; }
  const Outcome &getBestOutcome() const { return bestOutcome; }

private:
  llvm::Expected<Planned> search(int64_t budget, const PlanRules &rules);
  llvm::Error take(PlannedStep planned, int64_t budget);
  ScheduleProblem getProblem(const OrderLimits &limits) const;
  Outcome pack(Schedule schedule, const OrderLimits &limits);

  /// An order of a plan, and what packing gave.
  struct Packed {
    std::shared_ptr<const Plan> plan;
    Schedule schedule;
    /// Of those that lead to it, the first.
    OrderLimits limits;
    Outcome outcome;
  };

  const StepProgram &program;
  const CostModel &cost;
  llvm::ArrayRef<GroupPlacement> placements;
  int64_t hostBudget;
  const PlanRules &rules;
  const StepPlan *given;
  PlanNeeds needs;
  /// By budget: the step without changes.
  std::map<int64_t, std::shared_ptr<const PlannedStep>> plain;
  std::shared_ptr<const Plan> last, best;
  /// What plan() found last.
  std::shared_ptr<const Plan> searched;
  Planned searchedAs;
  /// Budgets often lead to a plan, or an order of it, that another one has led
  /// to.
  std::vector<std::shared_ptr<const Plan>> plans;
  std::vector<Packed> packed; // by the numbers of outcomes
  Schedule lastSchedule, bestSchedule;
  OrderLimits lastLimits, bestLimits;
  Outcome lastOutcome, bestOutcome;
};

} // namespace mlir::fsdp::sched

#endif // FSDP_PLANNING_PROGRAMTRIALS_H
