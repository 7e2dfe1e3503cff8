//===- ProgramTrials.cpp - Plans of a program, packed ---------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Analysis/Planning/ProgramTrials.h"
#include "fsdp/Analysis/Schedule/ScheduleProblem.h"
#include "fsdp/Analysis/Schedule/Scheduler.h"
#include "fsdp/Analysis/Schedule/Timeline.h"
#include "fsdp/Analysis/StepArena.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir::fsdp;
using namespace mlir::fsdp::sched;

llvm::Expected<StepTrials::Planned> ProgramTrials::plan(int64_t budget,
                                                        Time below) {
  if (!last || last->budget != budget || last->below != below)
    if (llvm::Error error = planAnew(budget, below))
      return std::move(error);
  return Planned{last->planned.fits(), last->planned.step};
}

llvm::Error ProgramTrials::planAnew(int64_t budget, Time below) {
  PlanLimits limits(budget, hostBudget);
  limits.below = below;
  auto planned = planStep(program, cost, placements, limits, rules,
                          /*given=*/nullptr, &needs);
  if (!planned)
    return planned.takeError();
  auto known = llvm::find_if(plans, [&](const std::shared_ptr<const Plan> &o) {
    return o->planned.plan == planned->plan;
  });
  auto next = known == plans.end() ? std::make_shared<Plan>()
                                   : std::make_shared<Plan>(**known);
  next->budget = budget;
  next->below = below;
  next->planned = std::move(*planned);
  if (known != plans.end()) {
    last = std::move(next);
    return llvm::Error::success();
  }
  next->number = plans.size();
  next->program = applyPlan(program, next->planned.plan);
  shareBuffers(next->program);
  TimedProgram times = addTimes(next->program, cost, placements);
  auto step = getStepProblem(next->program, times);
  if (!step)
    return step.takeError();
  next->step = std::move(*step);
  plans.push_back(next);
  last = std::move(next);
  return llvm::Error::success();
}

llvm::Expected<StepTrials::Outcome>
ProgramTrials::order(const OrderLimits &limits) {
  ScheduleProblem problem = last->step.problem;
  problem.budget = std::max(limits.budget, getLeastBudget(problem));
  problem.room = limits.room;
  std::optional<Schedule> found = schedule(problem);
  if (!found)
    return llvm::createStringError("internal error: no schedule within " +
                                   llvm::Twine(problem.budget) + " bytes");
  lastSchedule = std::move(*found);
  lastLimits = limits;
  auto known = llvm::find_if(packed, [&](const Packed &other) {
    return other.plan == last->number &&
           other.schedule.isSameOrder(lastSchedule);
  });
  if (known != packed.end())
    return known->outcome;
  StepProgram ordered = applySchedule(last->program, last->step, lastSchedule);
  shareBuffers(ordered);
  Outcome outcome{placeBuffers(ordered).totalBytes,
                  play(addTimes(ordered, cost, placements)).step};
  packed.push_back({last->number, lastSchedule, outcome});
  return outcome;
}
