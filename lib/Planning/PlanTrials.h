//===- PlanTrials.h - Plans under one budget --------------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Plans are offered here and become programs, which are scheduled and
// simulated. A way is a choice of what is repeated and offloaded; which way is
// the best is not known before each is filled with gathered parameters and
// grouped, so the best plan of each way is remembered. What is found does not
// depend on how many threads look for it.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_LIB_PLANNING_PLANTRIALS_H
#define FSDP_LIB_PLANNING_PLANTRIALS_H

#include "fsdp/Planning/PlanSearch.h"
#include "fsdp/Schedule/StepProblem.h"

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/Parallel.h"

#include <array>
#include <map>
#include <optional>

namespace mlir::fsdp::sched {

/// The plans that one way is tried with.
using Way = std::vector<StepPlan>;

class PlanTrials {
public:
  PlanTrials(const StepProgram &program, const CostModel &cost,
             llvm::ArrayRef<GroupPlacement> placements,
             const PlanLimits &limits, PlanNeeds &needs, bool threads)
      : program(program), cost(cost), placements(placements), limits(limits),
        needs(needs), threads(threads) {
    best.leastBytes = std::numeric_limits<int64_t>::max();
  }

  /// What @find gives for 0 to @count - 1, in order; of errors the first. Where
  /// threads may be used, any may ask it.
  template <typename T>
  llvm::Expected<std::vector<T>>
  findEach(size_t count,
           llvm::function_ref<llvm::Expected<T>(size_t)> find) const;

  /// The smallest budget under which @plan can be scheduled.
  llvm::Expected<int64_t> getLeastBytes(const StepPlan &plan) const;
  int64_t getBudget() const { return limits.device; }
  /// Whether what @plan offloads has room on the host.
  bool fitsHost(const StepPlan &plan) const;

  /// Takes those plans of @ways that are better: fit at all, are faster by more
  /// than rounding, or, where nothing fits, need less. As good as one after the
  /// other, but that a few are evaluated at a time.
  llvm::Error offer(const std::vector<Way> &ways);
  llvm::Error offer(StepPlan plan) { return offer({Way{std::move(plan)}}); }
  /// Remembers @plan, which needs @leastBytes and does not fit, where nothing
  /// fits and all others need more.
  void noteMisfit(const StepPlan &plan, int64_t leastBytes);

  const PlannedStep &getBest() const { return best; }
  /// The best of the last way that offloads; null where none fits.
  const PlannedStep *getOffloadingOfLastWay() const;
  /// Plans to go on with: those of the best @most ways of each sort.
  llvm::SmallVector<StepPlan> getFinalists(size_t most) const;

  /// What grouping gains, about: what is slower than the best by more than that
  /// is not gone on with.
  Time laterGain = 0;

private:
  /// What is best changes as units are kept and transfers grouped, and
  /// differently for those that repeat and those that offload.
  enum Sort { Neither, Repeats, Offloads, kSorts };
  static Sort getSort(const StepPlan &plan);
  llvm::Expected<StepProblem> getProblem(const StepPlan &plan) const;
  /// A plan to be scheduled; without a problem where it does not fit.
  struct Candidate {
    PlannedStep planned;
    std::optional<StepProblem> step;
    /// Of the problem, without the epilogue.
    Time bound = 0;
    Time getBound() const { return bound + step->epilogueTime; }
  };
  llvm::Expected<Candidate> prepare(const StepPlan &plan) const;
  Time getTime(const Candidate &candidate, Time limit, double gap) const;
  void noteGap(const Candidate &scheduled, Sort sort);
  std::vector<std::pair<Time, int>> rankWays(Sort sort) const;
  Time getFinalTime(Sort sort, int way) const;
  Time getLimit(Sort sort, int way);
  void take(PlannedStep found, Sort sort, int way);

  const StepProgram &program;
  const CostModel &cost;
  llvm::ArrayRef<GroupPlacement> placements;
  PlanLimits limits;
  PlanNeeds &needs;
  bool threads;
  PlannedStep best;
  /// By sort and way.
  std::map<std::pair<Sort, int>, PlannedStep> finalists;
  int ways = 0;
  /// By sort: how much longer than its bound a plan took at least, as a part of
  /// it; none as long as there is no plan.
  std::array<std::optional<double>, kSorts> gaps;
};

template <typename T>
llvm::Expected<std::vector<T>>
PlanTrials::findEach(size_t count,
                     llvm::function_ref<llvm::Expected<T>(size_t)> find) const {
  std::vector<std::optional<llvm::Expected<T>>> found(count);
  auto one = [&](size_t i) { found[i].emplace(find(i)); };
  if (threads)
    llvm::parallelFor(0, count, one);
  else
    for (size_t i = 0; i != count; ++i)
      one(i);
  std::vector<T> results;
  llvm::Error first = llvm::Error::success();
  for (std::optional<llvm::Expected<T>> &result : found)
    if (*result)
      results.push_back(std::move(**result));
    else if (first)
      llvm::consumeError(result->takeError());
    else
      first = result->takeError();
  if (first)
    return std::move(first);
  return std::move(results);
}

/// How many ways are grouped in the end, of each sort.
constexpr size_t kWaysToGroup = 2;

} // namespace mlir::fsdp::sched

#endif // FSDP_LIB_PLANNING_PLANTRIALS_H
