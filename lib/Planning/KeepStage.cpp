//===- KeepStage.cpp - Gathered units in what memory is left --------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PlanStages.h"

#include "llvm/ADT/SetVector.h"

#include <algorithm>

using namespace mlir::fsdp;
using namespace mlir::fsdp::sched;

/// Parts of the time on the host's links that offloading costs where it makes
/// room for gathered parameters.
static constexpr double kRoomPrices[] = {0.25};

namespace {
struct Filled {
  Way way;
  /// Not all fit.
  bool isShort = false;
};
} // namespace

/// @base that keeps the first @count of @gathers, too.
static StepPlan getKeeping(StepPlan base, llvm::ArrayRef<Id> gathers,
                           size_t count) {
  for (Id gather : gathers.take_front(count))
    base.keep[gather] = true;
  return base;
}

/// @base with as many gathered units as fit, or with fewer.
static llvm::Expected<Filled>
fill(const PlanSpace &space, const PlanTrials &trials, const StepPlan &base) {
  std::vector<Id> gathers = space.getKeepOrder();
  // As many as fit: up to `low` they do. What more of them need grows about
  // evenly, so it is mostly known from both ends which can be the last.
  size_t low = 0, high = gathers.size() + 1;
  int64_t lowBytes = 0, highBytes = 0;
  for (int trial = 0; high - low > 1; ++trial) {
    size_t middle = low + (high - low + 1) / 2;
    if (trial == 0)
      middle = gathers.size(); // often all of them
    else if (trial < 6 && lowBytes && highBytes > lowBytes)
      middle =
          low + size_t(double(high - low) * (trials.getBudget() - lowBytes) /
                       (highBytes - lowBytes));
    middle = std::clamp(middle, low + 1, high - 1);
    auto bytes = trials.getLeastBytes(getKeeping(base, gathers, middle));
    if (!bytes)
      return bytes.takeError();
    bool fits = *bytes <= trials.getBudget();
    (fits ? low : high) = middle;
    (fits ? lowBytes : highBytes) = *bytes;
  }
  // Memory that is kept is missing for prefetches: fewer may be better.
  llvm::SmallSetVector<size_t, 4> counts;
  Filled filled;
  for (size_t count :
       {low, std::max<size_t>(low, 1) - 1, low - low / 8, low / 2})
    if (count > 0 && counts.insert(count))
      filled.way.push_back(getKeeping(base, gathers, count));
  filled.isShort = low < gathers.size();
  return std::move(filled);
}

llvm::Expected<bool>
mlir::fsdp::sched::keepWhatFits(const PlanSpace &space, PlanTrials &trials,
                                llvm::ArrayRef<StepPlan> bases) {
  auto filled = trials.findEach<Filled>(
      bases.size(), [&](size_t i) { return fill(space, trials, bases[i]); });
  if (!filled)
    return filled.takeError();
  std::vector<Way> ways;
  bool isShort = false;
  for (Filled &one : *filled) {
    ways.push_back(std::move(one.way));
    isShort |= one.isShort;
  }
  if (llvm::Error error = trials.offer(ways))
    return std::move(error);
  return isShort;
}

/// What is repeated where all units are kept; where not all can be, the most.
static llvm::Expected<StepPlan> getRepeatingForAll(const PlanSpace &space,
                                                   const PlanTrials &trials) {
  std::vector<Id> gathers = space.getKeepOrder();
  llvm::Expected<int> level = findLevel(trials, [&](int level) {
    return getKeeping(space.getRepeating(level), gathers, gathers.size());
  });
  if (!level)
    return level.takeError();
  return space.getRepeating(std::min(*level, PlanSpace::kMostLevel));
}

llvm::Error mlir::fsdp::sched::tradeForRoom(const PlanSpace &space,
                                            PlanTrials &trials, int level) {
  std::vector<StepPlan> bases;
  if (space.rules.mayRecompute()) {
    // Where repeats alone do not make the step fit, with the rest offloaded.
    bool needsRest = level == PlanSpace::kMostLevel;
    int from = level == 0 || needsRest ? 36 : level;
    // Launching small kernels costs more than what they do.
    if (level == 0) {
      int lowest = space.getLowestLevel();
      bases.push_back(space.getRepeating(lowest));
      from = std::max(from, lowest);
    }
    for (int more : {6, 18}) {
      if (from + more >= PlanSpace::kMostLevel)
        continue;
      StepPlan base = space.getRepeating(from + more);
      if (!needsRest)
        bases.push_back(std::move(base));
      else if (space.mayOffload())
        bases.push_back(space.withAllOffloaded(std::move(base)));
    }
    auto all = getRepeatingForAll(space, trials);
    if (!all)
      return all.takeError();
    bases.push_back(std::move(*all));
  }
  if (space.mayOffload()) {
    for (double linkPrice : kRoomPrices) {
      int most = std::max(level, space.getLevel(linkPrice));
      bases.push_back(space.getOffloading(linkPrice, most));
      if (space.rules.mayRecompute())
        bases.push_back(space.getOffloading(linkPrice, most, /*eighths=*/8,
                                            /*mayRecompute=*/false));
    }
    bases.push_back(space.withAllOffloaded(space.getRepeating(0)));
  }
  llvm::erase_if(bases, [&](const StepPlan &base) {
    return !trials.fitsHost(base) || (base.recompute == space.given.recompute &&
                                      base.offload == space.given.offload);
  });
  return keepWhatFits(space, trials, bases).takeError();
}

llvm::Error mlir::fsdp::sched::offloadForRoom(const PlanSpace &space,
                                              PlanTrials &trials) {
  if (llvm::Error error = offerOffloading(
          space, trials, {space.withAllOffloaded(space.getRepeating(0))}))
    return error;
  const PlannedStep *returned = trials.getOffloadingOfLastWay();
  if (!returned)
    return llvm::Error::success();
  return keepWhatFits(space, trials, returned->plan).takeError();
}
