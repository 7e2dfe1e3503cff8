//===- ProgramTrials.cpp - Plans of a program, packed ---------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Planning/ProgramTrials.h"
#include "fsdp/Arena/SharedBuffers.h"
#include "fsdp/Arena/StepArena.h"
#include "fsdp/Schedule/FSDPSchedules.h"
#include "fsdp/Schedule/LowerBound.h"
#include "fsdp/Schedule/ScheduleProblem.h"
#include "fsdp/Schedule/Scheduler.h"
#include "fsdp/Schedule/StepSchedule.h"
#include "fsdp/Schedule/Timeline.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir::fsdp;
using namespace mlir::fsdp::sched;

/// What @plan does that the search decided.
static llvm::SmallVector<PlanDecision::Kind> getKinds(const StepPlan &plan,
                                                      const PlanRules &rules) {
  llvm::SmallVector<PlanDecision::Kind> kinds;
  auto add = [&](PlanDecision::Kind kind, bool may, const auto &taken) {
    if (may && llvm::is_contained(taken, true))
      kinds.push_back(kind);
  };
  add(PlanDecision::Recompute, rules.mayRecompute(), plan.recompute);
  add(PlanDecision::Keep, rules.mayKeep(), plan.keep);
  add(PlanDecision::Offload, rules.mayOffload(), plan.offload);
  return kinds;
}

llvm::Expected<StepTrials::Planned>
ProgramTrials::search(int64_t budget, const PlanRules &rules) {
  auto planned = planStep(program, cost, placements, {budget, hostBudget},
                          rules, given, &needs);
  if (!planned)
    return planned.takeError();
  plain.try_emplace(budget, planned->plain);
  Planned result{planned->fits(),
                 planned->step,
                 planned->plain->step,
                 planned->plain->leastBytes,
                 planned->plan == planned->plain->plan,
                 getKinds(planned->plan, rules)};
  if (llvm::Error error = take(std::move(*planned), budget))
    return std::move(error);
  return std::move(result);
}

llvm::Expected<StepTrials::Planned> ProgramTrials::plan(int64_t budget) {
  if (searched && searched->budget == budget) {
    last = searched;
    return searchedAs;
  }
  auto planned = search(budget, rules);
  if (planned) {
    searched = last;
    searchedAs = *planned;
  }
  return planned;
}

llvm::Expected<StepTrials::Planned>
ProgramTrials::planWithout(PlanDecision::Kind kind, int64_t budget) {
  PlanRules without = rules;
  without.leftOut = kind;
  return search(budget, without);
}

llvm::Error ProgramTrials::planPlainly(int64_t budget) {
  return take(*plain.at(budget), budget);
}

llvm::Error ProgramTrials::take(PlannedStep planned, int64_t budget) {
  Plan next;
  next.budget = budget;
  next.planned = std::move(planned);
  auto known = llvm::find_if(plans, [&](const std::shared_ptr<const Plan> &o) {
    return o->planned.plan == next.planned.plan;
  });
  if (known != plans.end()) {
    next.number = (*known)->number;
    next.program = (*known)->program;
    next.step = (*known)->step;
    next.bound = (*known)->bound;
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
  next.bound = lowerBound(next.step.problem).value + next.step.epilogueTime;
  last = std::make_shared<Plan>(std::move(next));
  plans.push_back(last);
  return llvm::Error::success();
}

/// What there is to order in the last plan within @limits.
ScheduleProblem ProgramTrials::getProblem(const OrderLimits &limits) const {
  ScheduleProblem problem = last->step.problem;
  problem.budget = std::max(limits.budget, getLeastBudget(problem));
  problem.room = limits.room;
  return problem;
}

llvm::Expected<StepTrials::Outcome>
ProgramTrials::order(const OrderLimits &limits) {
  ScheduleProblem problem = getProblem(limits);
  std::optional<Schedule> found = scheduleRoughly(problem);
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

StepTrials::Outcome ProgramTrials::refine(size_t number) {
  last = packed[number].plan;
  OrderLimits limits = packed[number].limits;
  ScheduleProblem problem = getProblem(limits);
  // FSDP's order looks at no budget, and may pack all the same.
  problem.budget = std::max(problem.budget, packed[number].schedule.peak);
  return pack(sched::refine(problem, packed[number].schedule), limits);
}

StepTrials::Outcome ProgramTrials::pack(Schedule schedule,
                                        const OrderLimits &limits) {
  lastSchedule = std::move(schedule);
  lastLimits = limits;
  auto known = llvm::find_if(packed, [&](const Packed &other) {
    return other.plan->number == last->number &&
           other.schedule.isSameOrder(lastSchedule);
  });
  if (known != packed.end())
    return lastOutcome = known->outcome;
  StepProgram ordered = applySchedule(last->program, last->step, lastSchedule);
  shareBuffers(ordered);
  lastOutcome = {placeBuffers(ordered).totalBytes,
                 play(addTimes(ordered, cost, placements)).step, last->bound,
                 packed.size()};
  packed.push_back({last, lastSchedule, limits, lastOutcome});
  return lastOutcome;
}
