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
static constexpr int kParts[] = {3, 6};
static constexpr double kPartPrice = 0.0625;

llvm::Expected<int> mlir::fsdp::sched::repeatToFit(const PlanSpace &space,
                                                   PlanTrials &trials) {
  // Up to `low` it does not fit.
  int low = 0, high = PlanSpace::kMostLevel + 1;
  while (high - low > 1) {
    int middle = (low + high) / 2;
    auto bytes = trials.getLeastBytes(space.getRepeating(middle));
    if (!bytes)
      return bytes.takeError();
    (*bytes <= trials.getBudget() ? high : low) = middle;
  }
  int level = std::min(high, PlanSpace::kMostLevel);
  trials.beginWay();
  if (llvm::Error error = trials.offer(space.getRepeating(level)))
    return std::move(error);
  return level;
}

/// @base, which needs @leastBytes, with so many values back on the device as
/// fit: those that are made last and needed first. Room that they take is
/// missing for copies on their way and prefetches: fewer may be better.
static llvm::Error offerReturning(const PlanSpace &space, PlanTrials &trials,
                                  const StepPlan &base, int64_t leastBytes) {
  SmallVector<Id> returning;
  for (const StepOp &op : llvm::reverse(space.program.ops))
    for (const ByteRange &range : llvm::reverse(op.writes))
      if (base.offload[range.value] && !space.given.offload[range.value])
        returning.push_back(range.value);
  auto getReturning = [&](size_t count) {
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
    auto bytes = trials.getLeastBytes(getReturning(getCount(room)));
    if (!bytes)
      return bytes.takeError();
    if (*bytes <= trials.getBudget())
      break;
    room = i + 2 == kTries ? 0 : room - (*bytes - trials.getBudget());
  }
  std::optional<size_t> last;
  for (int64_t part : {room, room / 2}) {
    size_t count = getCount(part);
    StepPlan plan = getReturning(count);
    if (count == last || !trials.fitsHost(plan))
      continue;
    last = count;
    if (llvm::Error error = trials.offer(std::move(plan)))
      return error;
  }
  return llvm::Error::success();
}

llvm::Expected<bool> mlir::fsdp::sched::offerOffloading(const PlanSpace &space,
                                                        PlanTrials &trials,
                                                        const StepPlan &base) {
  trials.beginWay();
  auto bytes = trials.getLeastBytes(base);
  if (!bytes)
    return bytes.takeError();
  bool fits = *bytes <= trials.getBudget();
  if (fits || trials.fitsHost(base))
    if (llvm::Error error = fits ? offerReturning(space, trials, base, *bytes)
                                 : trials.offer(base))
      return std::move(error);
  return fits;
}

/// For each price of time on the links; and for parts of forward, each with the
/// lowest price of memory at which it fits.
llvm::Error mlir::fsdp::sched::offloadToFit(const PlanSpace &space,
                                            PlanTrials &trials) {
  // Several prices often mean the same.
  std::vector<StepPlan> known;
  auto offerNew = [&](const StepPlan &base) -> llvm::Expected<bool> {
    if (llvm::is_contained(known, base))
      return true;
    known.push_back(base);
    return offerOffloading(space, trials, base);
  };
  for (double linkPrice : kLinkPrices) {
    StepPlan plan = space.getOffloading(linkPrice, space.getLevel(linkPrice));
    if (!llvm::is_contained(plan.offload, true))
      continue;
    auto fits = offerNew(plan);
    // What does not pay to be offloaded may have to be repeated.
    if (fits && !*fits)
      fits = offerNew(space.getOffloading(linkPrice, PlanSpace::kMostLevel));
    if (!fits)
      return fits.takeError();
  }
  int low = 0, high = PlanSpace::kMostLevel;
  for (int eighths : kParts) {
    // What offloads more fits at a lower price.
    for (low = 0; high - low > 3;) {
      int middle = (low + high) / 2;
      auto bytes = trials.getLeastBytes(
          space.getOffloading(kPartPrice, middle, eighths));
      if (!bytes)
        return bytes.takeError();
      (*bytes <= trials.getBudget() ? high : low) = middle;
    }
    auto fits = offerNew(space.getOffloading(kPartPrice, high, eighths));
    if (!fits)
      return fits.takeError();
  }
  return offerNew(space.withAllOffloaded(space.getRepeating(0))).takeError();
}

/// A higher price of memory does not always need less: what is computed again
/// is there at once.
llvm::Error mlir::fsdp::sched::fitAnyhow(const PlanSpace &space,
                                         PlanTrials &trials) {
  std::vector<StepPlan> plans;
  if (space.rules.recompute == PlanRules::Recompute::Auto)
    for (int price = 20; price <= PlanSpace::kMostLevel; price += 20)
      plans.push_back(space.getRepeating(price));
  if (space.mayOffload()) {
    plans.push_back(space.getRepeating(0));
    for (size_t i = 0, e = plans.size(); i != e; ++i)
      plans.push_back(space.withAllOffloaded(plans[i]));
  }
  if (space.rules.keep == PlanRules::Keep::Auto) {
    std::vector<Id> gathers = space.getKeepOrder();
    for (size_t i = 0, e = plans.size(); i != e; ++i) {
      StepPlan plan = plans[i];
      for (Id gather : gathers)
        plan.keep[gather] = true;
      plans.push_back(std::move(plan));
    }
  }
  for (const StepPlan &plan : plans) {
    if (!trials.fitsHost(plan))
      continue;
    trials.beginWay();
    auto bytes = trials.getLeastBytes(plan);
    if (!bytes)
      return bytes.takeError();
    if (*bytes > trials.getBudget()) {
      trials.noteMisfit(plan, *bytes);
      continue;
    }
    if (llvm::Error error = llvm::is_contained(plan.offload, true)
                                ? offerReturning(space, trials, plan, *bytes)
                                : trials.offer(plan))
      return error;
  }
  return llvm::Error::success();
}
