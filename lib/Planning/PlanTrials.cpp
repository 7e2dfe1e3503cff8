//===- PlanTrials.cpp - Plans under one budget ----------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PlanTrials.h"
#include "PlanSpace.h"
#include "fsdp/Schedule/LowerBound.h"
#include "fsdp/Schedule/Scheduler.h"

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

/// @plan, what it needs and, if that is there, its bound.
llvm::Expected<PlanTrials::Candidate>
PlanTrials::prepare(const StepPlan &plan) const {
  Candidate result;
  result.planned.plan = plan;
  std::optional<int64_t> known = needs.find(plan);
  if (known && *known > limits.device) {
    result.planned.leastBytes = *known;
    return std::move(result);
  }
  auto step = getProblem(plan);
  if (!step)
    return step.takeError();
  int64_t bytes = known ? *known : getLeastBudget(step->problem);
  needs.note(plan, bytes);
  result.planned.leastBytes = bytes;
  if (bytes <= limits.device) {
    result.bound = lowerBound(step->problem).value;
    result.step = std::move(*step);
  }
  return std::move(result);
}

/// The time of @candidate, where that may be less than @limit. @gap: how much
/// longer than their bounds plans like this take at least, as a part of those.
Time PlanTrials::getTime(const Candidate &candidate, Time limit,
                         double gap) const {
  for (const auto &[key, found] : finalists)
    if (found.fits() && found.plan == candidate.planned.plan)
      return found.step;
  Time epilogue = candidate.step->epilogueTime;
  Time below = limit == PlannedStep::kNever ? limit : limit - epilogue;
  // Whatever its order, it would not be better.
  if (double(candidate.bound) * (1 + gap) >= double(below))
    return PlannedStep::kNever;
  std::optional<Time> time =
      getScheduledTime(candidate.step->problem, candidate.bound, below);
  return time ? *time + epilogue : PlannedStep::kNever;
}

bool PlanTrials::fitsHost(const StepPlan &plan) const {
  return getHostBytes(program, plan) <= limits.host;
}

PlanTrials::Sort PlanTrials::getSort(const StepPlan &plan) {
  return llvm::is_contained(plan.offload, true)     ? Offloads
         : llvm::is_contained(plan.recompute, true) ? Repeats
                                                    : Neither;
}

const PlannedStep *PlanTrials::getOffloadingOfLastWay() const {
  auto found = finalists.find({Offloads, ways});
  return found != finalists.end() && found->second.fits() ? &found->second
                                                          : nullptr;
}

/// Ways that fit, fastest first; of equally fast ones the earlier.
std::vector<std::pair<Time, int>> PlanTrials::rankWays(Sort sort) const {
  std::vector<std::pair<Time, int>> ranks;
  for (const auto &[key, found] : finalists)
    if (key.first == sort && found.fits())
      ranks.push_back({found.step, key.second});
  llvm::sort(ranks);
  return ranks;
}

SmallVector<StepPlan> PlanTrials::getFinalists(size_t most) const {
  SmallVector<StepPlan> result;
  for (Sort sort : {Neither, Repeats, Offloads}) {
    std::vector<std::pair<Time, int>> ranks = rankWays(sort);
    for (auto [step, number] : llvm::ArrayRef(ranks).take_front(most))
      if (step - best.step <= laterGain)
        result.push_back(finalists.at({sort, number}).plan);
  }
  return result;
}

/// What a plan of @way must take less than to be grouped in the end.
Time PlanTrials::getFinalTime(Sort sort, int way) const {
  std::vector<std::pair<Time, int>> others = rankWays(sort);
  llvm::erase_if(others, [&](auto &rank) { return rank.second == way; });
  return others.size() < kWaysToGroup ? PlannedStep::kNever
                                      : others[kWaysToGroup - 1].first;
}

/// From here on a plan is neither the best of its way nor better than those
/// that go on. (As long as nothing fits, whatever does is wanted.)
Time PlanTrials::getLimit(Sort sort, int way) {
  Time limit = std::min(finalists[{sort, way}].step, getFinalTime(sort, way));
  return best.fits() ? std::min(limit, best.step + laterGain) : limit;
}

void PlanTrials::take(PlannedStep found, Sort sort, int way) {
  if (found.step < getLimit(sort, way))
    finalists[{sort, way}] = found;
  else
    found.step = PlannedStep::kNever;
  bool isBetter = best.fits()
                      ? found.step < best.step - best.step / 10000
                      : found.fits() || found.leastBytes < best.leastBytes;
  if (isBetter)
    best = std::move(found);
}

void PlanTrials::noteGap(const Candidate &scheduled, Sort sort) {
  double bound = double(std::max<Time>(scheduled.getBound(), 1));
  double gap = double(scheduled.planned.step) / bound - 1;
  gaps[sort] = std::min(gap, gaps[sort].value_or(gap));
}

llvm::Error PlanTrials::offer(const std::vector<Way> &offered) {
  struct Offer {
    const StepPlan &plan;
    Sort sort;
    int way;
  };
  SmallVector<Offer> offers;
  for (const Way &way : offered) {
    ++ways;
    for (const StepPlan &plan : way)
      offers.push_back({plan, getSort(plan), ways});
  }
  auto candidates = findEach<Candidate>(
      offers.size(), [&](size_t i) { return prepare(offers[i].plan); });
  if (!candidates)
    return candidates.takeError();

  // Those that promise most first: the sooner others need not be scheduled.
  SmallVector<std::pair<Time, size_t>> left;
  for (auto [i, candidate] : llvm::enumerate(*candidates))
    if (candidate.step)
      left.push_back({candidate.getBound(), i});
    else
      take(std::move(candidate.planned), offers[i].sort, offers[i].way);
  llvm::sort(left);
  // Of one after the other, each would know more about what it must beat.
  constexpr size_t kTogether = 4;
  for (size_t done = 0; done != left.size();) {
    auto some = llvm::ArrayRef(left).drop_front(done).take_front(kTogether);
    done += some.size();
    SmallVector<Time> limits;
    for (auto [bound, i] : some)
      limits.push_back(getLimit(offers[i].sort, offers[i].way));
    auto times = findEach<Time>(some.size(), [&](size_t j) {
      size_t i = some[j].second;
      double gap = gaps[offers[i].sort].value_or(0);
      return llvm::Expected<Time>(getTime((*candidates)[i], limits[j], gap));
    });
    if (!times)
      return times.takeError();
    for (auto [entry, time, limit] : llvm::zip_equal(some, *times, limits)) {
      auto [bound, i] = entry;
      Candidate &candidate = (*candidates)[i];
      candidate.planned.step = time;
      if (time < limit)
        noteGap(candidate, offers[i].sort);
      candidate.step.reset();
      take(std::move(candidate.planned), offers[i].sort, offers[i].way);
    }
  }
  return llvm::Error::success();
}

void PlanTrials::noteMisfit(const StepPlan &plan, int64_t leastBytes) {
  if (!best.fits() && leastBytes < best.leastBytes)
    best.plan = plan, best.leastBytes = leastBytes;
}
