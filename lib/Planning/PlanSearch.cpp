//===- PlanSearch.cpp - The planner ---------------------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Planning/PlanSearch.h"
#include "PlanStages.h"
#include "PlanWords.h"
#include "fsdp/Planning/RulePlan.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir::fsdp;
using namespace mlir::fsdp::sched;
using llvm::SmallVector;

/// How many ways to repeat and offload are filled with gathered units, of each
/// sort.
static constexpr size_t kWaysToFill = 2;

static llvm::Error createHostError(int64_t hostBudget, int64_t bytes) {
  return llvm::createStringError(
      "expected at most " + std::to_string(hostBudget) +
      " bytes of activations and optimizer states on the host (memory_gib of "
      "links.host in the cluster file), got " +
      std::to_string(bytes));
}

/// Fit, keep, group. Says whether it ended for want of memory rather than of
/// use.
static llvm::Expected<bool> search(const PlanSpace &space, PlanTrials &trials) {
  const PlannedStep &best = trials.getBest();
  bool isTight = !best.fits();
  int level = 0;
  if (isTight && space.rules.mayRecompute()) {
    llvm::Expected<int> repeated = repeatToFit(space, trials);
    if (!repeated)
      return repeated.takeError();
    level = *repeated;
  }
  if (isTight && space.mayOffload())
    if (llvm::Error error = offloadToFit(space, trials))
      return std::move(error);
  if (!best.fits())
    if (llvm::Error error = fitAnyhow(space, trials))
      return std::move(error);

  bool isShort = false;
  if (best.fits() && space.rules.mayKeep()) {
    auto filled = keepWhatFits(space, trials, trials.getFinalists(kWaysToFill));
    if (!filled)
      return filled.takeError();
    isShort = *filled;
    if (isShort)
      if (llvm::Error error = tradeForRoom(space, trials, level))
        return std::move(error);
    if (isShort && !isTight && space.mayOffload())
      if (llvm::Error error = offloadForRoom(space, trials))
        return std::move(error);
    if (space.mayOffload())
      if (llvm::Error error = returnOffloaded(space, trials))
        return std::move(error);
  }

  if (best.fits() && trials.laterGain >= best.step / kWorthIt) {
    SmallVector<StepPlan> bases = trials.getFinalists(kWaysToGroup);
    trials.laterGain = 0;
    if (llvm::Error error = groupTransfers(space, trials, bases, isShort))
      return std::move(error);
    // Grouped, another step is the fastest: copies may be what it waits for.
    if (space.mayOffload())
      if (llvm::Error error = returnOffloaded(space, trials))
        return std::move(error);
  }
  return isShort;
}

llvm::Expected<PlannedStep>
mlir::fsdp::sched::planStep(const StepProgram &program, const CostModel &cost,
                            llvm::ArrayRef<GroupPlacement> placements,
                            const PlanLimits &limits, const PlanRules &rules,
                            const StepPlan *given, PlanNeeds *needs,
                            bool threads) {
  PlanNeeds own;
  if (given) {
    if (std::string error = checkPlan(program, *given); !error.empty())
      return llvm::createStringError(error);
    // Somebody must say what the copies cost.
    if (limits.host == 0 && llvm::is_contained(given->offload, true))
      return llvm::createStringError(
          "expected links.host in the cluster file beside values that are "
          "offloaded, got none");
  }
  if (rules.offload == PlanRules::Offload::Full && limits.host == 0)
    return llvm::createStringError(
        "expected links.host in the cluster file beside offload " +
        getWord(rules.offload) + ", got none");
  StepPlan stands = addCheckpoints(program, given ? *given : StepPlan(program));
  PlanSpace space(program, cost, placements, /*hasHost=*/limits.host > 0, rules,
                  stands);
  PlanTrials trials(program, cost, placements, limits, needs ? *needs : own,
                    threads);
  trials.laterGain = getGainOfGroups(space);
  StepPlan plan = space.getRepeating(0);
  if (!trials.fitsHost(plan))
    return createHostError(limits.host, getHostBytes(program, plan));
  if (llvm::Error error = trials.offer(std::move(plan)))
    return std::move(error);
  PlannedStep plain = trials.getBest();
  putInWords(space, /*isShort=*/false, plain);
  llvm::Expected<bool> isShort = search(space, trials);
  if (!isShort)
    return isShort.takeError();
  PlannedStep best = trials.getBest();
  putInWords(space, *isShort, best);
  best.plain = std::make_shared<PlannedStep>(std::move(plain));
  return best;
}
