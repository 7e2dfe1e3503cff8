//===- ProgramTrials.cpp - Plans of a program, packed ---------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ProgramTrials.h"
#include "fsdp/Analysis/Schedule/ScheduleProblem.h"
#include "fsdp/Analysis/Schedule/Scheduler.h"
#include "fsdp/Analysis/Schedule/Timeline.h"
#include "fsdp/Analysis/StepArena.h"

using namespace mlir::fsdp;
using namespace mlir::fsdp::sched;

llvm::Error ProgramTrials::plan(int64_t budget) {
  if (last && last->budget == budget)
    return llvm::Error::success();
  auto planned =
      planStep(program, cost, placements, {budget, hostBudget}, rules);
  if (!planned)
    return planned.takeError();
  auto next = std::make_shared<Plan>();
  next->budget = budget;
  next->planned = std::move(*planned);
  next->program = applyPlan(program, next->planned.plan);
  TimedProgram times = addTimes(next->program, cost, placements);
  auto step = getStepProblem(next->program, times);
  if (!step)
    return step.takeError();
  next->step = std::move(*step);
  next->bound = getStepBound(next->program, next->step, times);
  last = std::move(next);
  return llvm::Error::success();
}

llvm::Expected<StepTrials::Outcome> ProgramTrials::order(int64_t budget) {
  ScheduleProblem problem = last->step.problem;
  problem.budget = std::max(budget, getLeastBudget(problem));
  std::optional<Schedule> found = schedule(problem);
  if (!found)
    return llvm::createStringError("internal error: no schedule within " +
                                   llvm::Twine(problem.budget) + " bytes");
  lastSchedule = std::move(*found);
  lastOrderBudget = budget;
  StepProgram ordered = applySchedule(last->program, last->step, lastSchedule);
  return Outcome{packArena(ordered),
                 play(addTimes(ordered, cost, placements)).step};
}
