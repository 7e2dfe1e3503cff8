//===- PlanTrials.cpp - Plans under one budget ----------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PlanTrials.h"
#include "PlanSpace.h"
#include "fsdp/Analysis/Schedule/LowerBound.h"
#include "fsdp/Analysis/Schedule/Scheduler.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <optional>

using namespace mlir::fsdp;
using namespace mlir::fsdp::sched;
using llvm::SmallVector;

llvm::Expected<StepProblem> PlanTrials::getProblem(const StepPlan &plan) const {
  StepProgram changed = applyPlan(program, plan);
  auto step = getStepProblem(changed, addTimes(changed, cost, placements));
  if (step)
    step->problem.budget = limits.device;
  return step;
}

llvm::Expected<int64_t> PlanTrials::getLeastBytes(const StepPlan &plan) const {
  if (std::optional<int64_t> known = needs.find(plan))
    return *known;
  auto step = getProblem(plan);
  if (!step)
    return step.takeError();
  int64_t bytes = getLeastBudget(step->problem);
  needs.note(plan, bytes);
  return bytes;
}

/// @plan with the least memory that it needs and, if that is there, its time,
/// where that may be less than @limit.
llvm::Expected<PlannedStep> PlanTrials::evaluate(StepPlan plan,
                                                 Time limit) const {
  PlannedStep result;
  std::optional<int64_t> known = needs.find(plan);
  if (known && *known > limits.device) {
    result.plan = std::move(plan);
    result.leastBytes = *known;
    return std::move(result);
  }
  auto step = getProblem(plan);
  if (!step)
    return step.takeError();
  result.leastBytes = known ? *known : getLeastBudget(step->problem);
  needs.note(plan, result.leastBytes);
  result.plan = std::move(plan);
  if (result.leastBytes > limits.device)
    return std::move(result);
  Time bound = lowerBound(step->problem).value;
  // Whatever its order, it would not be better.
  Time below =
      limit == PlannedStep::kNever ? limit : limit - step->epilogueTime;
  if (bound >= below)
    return std::move(result);
  if (std::optional<Time> time = getScheduledTime(step->problem, bound, below))
    result.step = *time + step->epilogueTime;
  return std::move(result);
}

bool PlanTrials::fitsHost(const StepPlan &plan) const {
  return getHostBytes(program, plan) <= limits.host;
}

/// Ways that fit, fastest first; of equally fast ones the earlier.
std::vector<std::pair<Time, int>> PlanTrials::rankWays(bool offloads) const {
  std::vector<std::pair<Time, int>> ranks;
  for (const auto &[key, found] : finalists)
    if (key.first == offloads && found.fits())
      ranks.push_back({found.step, key.second});
  llvm::sort(ranks);
  return ranks;
}

SmallVector<StepPlan> PlanTrials::getFinalists(size_t most) const {
  SmallVector<StepPlan> result;
  for (bool offloads : {false, true}) {
    std::vector<std::pair<Time, int>> ranks = rankWays(offloads);
    for (auto [step, number] : llvm::ArrayRef(ranks).take_front(most))
      if (step - best.step <= laterGain)
        result.push_back(finalists.at({offloads, number}).plan);
  }
  return result;
}

/// What a plan of this way must take less than to be grouped in the end.
Time PlanTrials::getFinalTime(bool offloads) const {
  std::vector<std::pair<Time, int>> others = rankWays(offloads);
  llvm::erase_if(others, [&](auto &rank) { return rank.second == way; });
  return others.size() < kWaysToGroup ? PlannedStep::kNever
                                      : others[kWaysToGroup - 1].first;
}

llvm::Error PlanTrials::offer(StepPlan plan) {
  bool offloads = llvm::is_contained(plan.offload, true);
  PlannedStep &rival = finalists[{offloads, way}];
  // Neither the best of its way nor better than those that go on.
  Time limit = std::min(rival.step, getFinalTime(offloads));
  if (best.fits())
    limit = std::min(limit, best.step + laterGain);
  llvm::Expected<PlannedStep> found = evaluate(std::move(plan), limit);
  if (!found)
    return found.takeError();
  if (found->step < rival.step)
    rival = *found;
  bool isBetter = best.fits()
                      ? found->step < best.step - best.step / 10000
                      : found->fits() || found->leastBytes < best.leastBytes;
  if (isBetter)
    best = std::move(*found);
  return llvm::Error::success();
}

void PlanTrials::noteMisfit(const StepPlan &plan, int64_t leastBytes) {
  if (!best.fits() && leastBytes < best.leastBytes)
    best.plan = plan, best.leastBytes = leastBytes;
}
