//===- FitStage.cpp - Repeats and offloads until the step fits ------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PlanStages.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <optional>

using namespace mlir::fsdp;
using namespace mlir::fsdp::sched;
using llvm::SmallVector;

/// Parts of the time on the host's links that offloading costs: hidden behind
/// compute it is free, but there is only so much of it.
static constexpr double kLinkPrices[] = {1, 0.25, 0.0625};
/// Where the links have not enough time for all: eighths of the stretches of
/// forward that offload, evenly spread, and the price for them.
static constexpr int kParts[] = {3, 5, 7};
static constexpr double kPartPrice = 0.0625;
/// Levels above the lowest that repeats; six of them double the price of
/// memory.
static constexpr int kMoreRepeats[] = {0, 6, 12, 24, 48, PlanSpace::kMostLevel};

llvm::Expected<int>
mlir::fsdp::sched::findLevel(const PlanTrials &trials,
                             llvm::function_ref<StepPlan(int level)> getPlan,
                             int tolerance) {
  auto fits = [&](int level) -> llvm::Expected<bool> {
    auto bytes = trials.getLeastBytes(getPlan(level));
    if (!bytes)
      return bytes.takeError();
    return *bytes <= trials.getBudget();
  };
  int low = 0, high = PlanSpace::kMostLevel;
  llvm::Expected<bool> most = fits(high);
  if (!most)
    return most.takeError();
  if (!*most) {
    // One between may, all the same.
    constexpr int kApart = 20;
    auto between = trials.findEach<bool>(
        high / kApart - 1, [&](size_t i) { return fits((i + 1) * kApart); });
    if (!between)
      return between.takeError();
    auto lowest = llvm::find(*between, true);
    if (lowest == between->end())
      return high + 1;
    low = (lowest - between->begin()) * kApart, high = low + kApart;
  }
  while (high - low > 1 + tolerance) {
    int middle = (low + high) / 2;
    llvm::Expected<bool> fit = fits(middle);
    if (!fit)
      return fit.takeError();
    (*fit ? high : low) = middle;
  }
  return high;
}

llvm::Expected<int> mlir::fsdp::sched::repeatToFit(const PlanSpace &space,
                                                   PlanTrials &trials) {
  llvm::Expected<int> found =
      findLevel(trials, [&](int level) { return space.getRepeating(level); });
  if (!found)
    return found;
  int level = std::min(*found, PlanSpace::kMostLevel);
  if (llvm::Error error = trials.offer(space.getRepeating(level)))
    return std::move(error);
  return level;
}

/// @base, which needs @leastBytes, with so many values back on the device as
/// fit: those that are made last and needed first. Room that they take is
/// missing for copies on their way and prefetches: fewer may be better.
static llvm::Expected<Way> getReturning(const PlanSpace &space,
                                        const PlanTrials &trials,
                                        const StepPlan &base,
                                        int64_t leastBytes) {
  SmallVector<Id> returning;
  for (const StepOp &op : llvm::reverse(space.program.ops))
    for (const ByteRange &range : llvm::reverse(op.writes))
      if (base.offload[range.value] && !space.given.offload[range.value])
        returning.push_back(range.value);
  auto getPlan = [&](size_t count) {
    StepPlan plan = base;
    for (size_t i = 0; i != count; ++i)
      plan.offload[returning[i]] = false;
    return plan;
  };
  // As many as have room beside the least that the others need.
  auto getCount = [&](int64_t room) {
    size_t count = 0;
    for (; count != returning.size(); ++count)
      if ((room -= space.program.values[returning[count]].bytes) < 0)
        break;
    return count;
  };
  constexpr int kTries = 4;
  int64_t room = trials.getBudget() - leastBytes;
  for (int i = 0; i != kTries; ++i) {
    auto bytes = trials.getLeastBytes(getPlan(getCount(room)));
    if (!bytes)
      return bytes.takeError();
    if (*bytes <= trials.getBudget())
      break;
    room = i + 2 == kTries ? 0 : room - (*bytes - trials.getBudget());
  }
  Way way;
  std::optional<size_t> last;
  for (int64_t part : {room, room / 2, int64_t(0)}) {
    size_t count = getCount(part);
    StepPlan plan = getPlan(count);
    if (count == last || !trials.fitsHost(plan))
      continue;
    last = count;
    way.push_back(std::move(plan));
  }
  return std::move(way);
}

llvm::Error mlir::fsdp::sched::offerOffloading(const PlanSpace &space,
                                               PlanTrials &trials,
                                               llvm::ArrayRef<StepPlan> bases) {
  auto ways =
      trials.findEach<Way>(bases.size(), [&](size_t i) -> llvm::Expected<Way> {
        auto bytes = trials.getLeastBytes(bases[i]);
        if (!bytes)
          return bytes.takeError();
        if (*bytes <= trials.getBudget())
          return getReturning(space, trials, bases[i], *bytes);
        return trials.fitsHost(bases[i]) ? Way{bases[i]} : Way();
      });
  return ways ? trials.offer(*ways) : ways.takeError();
}

using Plans = std::vector<StepPlan>;

/// What pays to be offloaded at @linkPrice; if that does not fit, with what has
/// to be repeated beside it.
static llvm::Expected<Plans>
getPaying(const PlanSpace &space, const PlanTrials &trials, double linkPrice) {
  Plans bases;
  StepPlan plan = space.getOffloading(linkPrice, space.getLevel(linkPrice));
  if (!llvm::is_contained(plan.offload, true))
    return std::move(bases);
  auto bytes = trials.getLeastBytes(plan);
  if (!bytes)
    return bytes.takeError();
  bases.push_back(std::move(plan));
  if (*bytes > trials.getBudget())
    bases.push_back(space.getOffloading(linkPrice, PlanSpace::kMostLevel));
  return std::move(bases);
}

/// What @eighths of all stretches offload, at about the lowest price of memory
/// at which the step fits.
static llvm::Expected<Plans> getPart(const PlanSpace &space,
                                     const PlanTrials &trials, int eighths) {
  auto getPlan = [&](int level) {
    return space.getOffloading(kPartPrice, level, eighths);
  };
  llvm::Expected<int> level = findLevel(trials, getPlan, /*tolerance=*/2);
  if (!level)
    return level.takeError();
  return *level > PlanSpace::kMostLevel ? Plans() : Plans{getPlan(*level)};
}

/// Whether hardly a value is repeated or offloaded in one of them alone.
static bool areAlike(const StepPlan &a, const StepPlan &b) {
  constexpr int kFew = 64;
  int taken = 0, apart = 0;
  auto compare = [&](const std::vector<bool> &ofA,
                     const std::vector<bool> &ofB) {
    for (auto [inA, inB] : llvm::zip_equal(ofA, ofB)) {
      taken += inA || inB;
      apart += inA != inB;
    }
  };
  compare(a.recompute, b.recompute);
  compare(a.offload, b.offload);
  return apart <= taken / kFew;
}

llvm::Error mlir::fsdp::sched::offloadToFit(const PlanSpace &space,
                                            PlanTrials &trials) {
  constexpr size_t kPrices = std::size(kLinkPrices);
  auto found = trials.findEach<Plans>(
      kPrices + std::size(kParts), [&](size_t i) -> llvm::Expected<Plans> {
        return i < kPrices ? getPaying(space, trials, kLinkPrices[i])
                           : getPart(space, trials, kParts[i - kPrices]);
      });
  if (!found)
    return found.takeError();
  found->push_back({space.withAllOffloaded(space.getRepeating(0))});
  // More repeats need not mean less memory: what is computed again is there at
  // once. So with some, and ever more of them.
  if (space.rules.mayRecompute()) {
    int lowest = space.getLowestLevel();
    for (int more : kMoreRepeats)
      found->push_back({space.withAllOffloaded(
          space.getRepeating(std::min(lowest + more, PlanSpace::kMostLevel)))});
  }
  // Several prices often mean the same.
  std::vector<StepPlan> bases;
  for (Plans &some : *found)
    for (StepPlan &base : some)
      if (llvm::none_of(bases, [&](const StepPlan &other) {
            return areAlike(base, other);
          }))
        bases.push_back(std::move(base));
  return offerOffloading(space, trials, bases);
}

llvm::Error mlir::fsdp::sched::returnOffloaded(const PlanSpace &space,
                                               PlanTrials &trials) {
  std::vector<StepPlan> bases;
  for (StepPlan &plan : trials.getFinalists(kWaysToGroup))
    if (llvm::is_contained(plan.offload, true) &&
        (plan.keep != space.given.keep || plan.group != space.given.group))
      bases.push_back(std::move(plan));
  return offerOffloading(space, trials, bases);
}

/// A higher price of memory does not always need less: what is computed again
/// is there at once.
llvm::Error mlir::fsdp::sched::fitAnyhow(const PlanSpace &space,
                                         PlanTrials &trials) {
  std::vector<StepPlan> plans;
  if (space.rules.mayRecompute())
    for (int price = 20; price <= PlanSpace::kMostLevel; price += 20)
      plans.push_back(space.getRepeating(price));
  if (space.mayOffload()) {
    plans.push_back(space.getRepeating(0));
    for (size_t i = 0, e = plans.size(); i != e; ++i)
      plans.push_back(space.withAllOffloaded(plans[i]));
  }
  if (space.rules.mayKeep()) {
    std::vector<Id> gathers = space.getKeepOrder();
    for (size_t i = 0, e = plans.size(); i != e; ++i) {
      StepPlan plan = plans[i];
      for (Id gather : gathers)
        plan.keep[gather] = true;
      plans.push_back(std::move(plan));
    }
  }
  llvm::erase_if(plans,
                 [&](const StepPlan &plan) { return !trials.fitsHost(plan); });
  auto needed = trials.findEach<int64_t>(
      plans.size(), [&](size_t i) { return trials.getLeastBytes(plans[i]); });
  if (!needed)
    return needed.takeError();
  std::vector<StepPlan> fitting;
  for (auto [plan, bytes] : llvm::zip(plans, *needed))
    if (bytes <= trials.getBudget())
      fitting.push_back(std::move(plan));
    else
      trials.noteMisfit(plan, bytes);
  return offerOffloading(space, trials, fitting);
}
