//===- ProgramTrials.cpp - Plans of a program, packed ---------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Analysis/Planning/ProgramTrials.h"
#include "fsdp/Analysis/Schedule/FSDPSchedules.h"
#include "fsdp/Analysis/Schedule/ScheduleProblem.h"
#include "fsdp/Analysis/Schedule/Scheduler.h"
#include "fsdp/Analysis/Schedule/Timeline.h"
#include "fsdp/Analysis/StepArena.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir::fsdp;
using namespace mlir::fsdp::sched;

llvm::Expected<StepTrials::Planned> ProgramTrials::plan(int64_t budget) {
  if (!last || last->budget != budget || !last->isSearched) {
    auto planned =
        planStep(program, cost, placements, {budget, hostBudget}, rules,
                 /*given=*/nullptr, &needs);
    if (!planned)
      return planned.takeError();
    plain.try_emplace(budget, planned->plain);
    if (llvm::Error error =
            take(std::move(*planned), budget, /*isSearched=*/true))
      return std::move(error);
  }
  const PlannedStep &planned = last->planned;
  return Planned{planned.fits(), planned.step, planned.plain->step,
                 planned.plain->leastBytes,
                 planned.plan == planned.plain->plan};
}

llvm::Error ProgramTrials::planPlainly(int64_t budget) {
  return take(*plain.at(budget), budget, /*isSearched=*/false);
}

llvm::Error ProgramTrials::take(PlannedStep planned, int64_t budget,
                                bool isSearched) {
  Plan next;
  next.budget = budget;
  next.isSearched = isSearched;
  next.planned = std::move(planned);
  auto known = llvm::find_if(plans, [&](const std::shared_ptr<const Plan> &o) {
    return o->planned.plan == next.planned.plan;
  });
  if (known != plans.end()) {
    next.number = (*known)->number;
    next.program = (*known)->program;
    next.step = (*known)->step;
    last = std::make_shared<Plan>(std::move(next));
    return llvm::Error::success();
  }
  next.number = plans.size();
  next.program = applyPlan(program, next.planned.plan);
  shareBuffers(next.program);
  TimedProgram times = addTimes(next.program, cost, placements);
  auto step = getStepProblem(next.program, times);
  if (!step)
    return step.takeError();
  next.step = std::move(*step);
  last = std::make_shared<Plan>(std::move(next));
  plans.push_back(last);
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
  return pack(std::move(*found), limits);
}

llvm::Expected<std::optional<StepTrials::Outcome>>
ProgramTrials::orderLikeFSDP(int64_t most, Time below) {
  Schedule found = scheduleLikeFSDP(last->step.problem, FSDPOptions());
  if (found.peak > most || found.makespan + last->step.epilogueTime >= below)
    return std::nullopt;
  return pack(std::move(found), {last->budget, 0});
}

StepTrials::Outcome ProgramTrials::pack(Schedule schedule,
                                        const OrderLimits &limits) {
  lastSchedule = std::move(schedule);
  lastLimits = limits;
  auto known = llvm::find_if(packed, [&](const Packed &other) {
    return other.plan == last->number &&
           other.schedule.isSameOrder(lastSchedule);
  });
  if (known != packed.end())
    return lastOutcome = known->outcome;
  StepProgram ordered = applySchedule(last->program, last->step, lastSchedule);
  shareBuffers(ordered);
  lastOutcome = {placeBuffers(ordered).totalBytes,
                 play(addTimes(ordered, cost, placements)).step};
  packed.push_back({last->number, lastSchedule, lastOutcome});
  return lastOutcome;
}
