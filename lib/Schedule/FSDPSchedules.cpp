//===- FSDPSchedules.cpp - What FSDP would do -----------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Schedule/FSDPSchedules.h"
#include "fsdp/Schedule/Makespan.h"
#include "fsdp/Schedule/SchedulePeak.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>

using namespace mlir::fsdp;
using namespace mlir::fsdp::sched;

static ScheduleProblem withLimits(const ScheduleProblem &original,
                                  const FSDPOptions &options) {
  ScheduleProblem problem = original;
  problem.limits.forwardPrefetch = options.forwardPrefetch;
  problem.limits.backwardPrefetch =
      options.backwardPrefetch != BackwardPrefetch::None;
  problem.limits.backwardPost =
      options.backwardPrefetch == BackwardPrefetch::Post;
  problem.limits.inFlight = options.limitAllGathers ? 2 : -1;
  problem.limits.allReduceOnReduceQueue |= options.allReduceOnReduceQueue;
  return problem;
}

namespace {
/// Writes down an order in which everything is issued as soon as FSDP's rules
/// let it.
class FSDPOrder {
public:
  FSDPOrder(const ScheduleProblem &problem, const FSDPOptions &options)
      : problem(problem), options(options), before(getPredecessors(problem)),
        casts(getCastsOf(problem)), hasStarted(problem.transfers.size()),
        lastOnLink(problem.numLinks, -1) {}

  Schedule write();

private:
  std::vector<Id> findPlaces() const;
  void sortByPlace(llvm::ArrayRef<Id> place);
  void start(Id t);
  void startGathers(size_t at);

  const ScheduleProblem &problem;
  const FSDPOptions &options;
  std::vector<llvm::SmallVector<Id, 2>> before;
  std::vector<llvm::SmallVector<Id, 1>> casts;
  /// By segments before them: gathers, and the others with an all_reduce behind
  /// its reduce_scatter.
  std::vector<std::vector<Id>> gathers, others;

  std::vector<bool> hasStarted;
  std::vector<Id> lastOnLink;
  Id lastReduction = -1;
  Schedule result;
};
} // namespace

/// Segments before each transfer. None is placed before its predecessor in its
/// queue or before a transfer that it reads; the loop visits each queue after
/// the queues whose transfers it reads.
std::vector<Id> FSDPOrder::findPlaces() const {
  std::vector<Id> place = getPlaceFloor(problem).place;
  for (Queue queue : {Queue::Reduce, Queue::AllReduce, Queue::D2H, Queue::H2D,
                      Queue::AllGather}) {
    Id last = 0;
    for (Id t : getQueueOrder(problem, queue)) {
      for (Id a : before[t])
        last = std::max(last, place[a]);
      last = place[t] = std::max(last, place[t]);
    }
  }
  return place;
}

void FSDPOrder::sortByPlace(llvm::ArrayRef<Id> place) {
  gathers.resize(problem.spine.size() + 1);
  others.resize(problem.spine.size() + 1);
  for (Queue q : {Queue::H2D, Queue::AllGather})
    for (Id t : getQueueOrder(problem, q))
      gathers[place[t]].push_back(t);
  for (Queue q : {Queue::D2H, Queue::Reduce})
    for (Id t : getQueueOrder(problem, q))
      others[place[t]].push_back(t);
  for (Id t : getQueueOrder(problem, Queue::AllReduce)) {
    auto &list = others[place[t]];
    auto behind = llvm::find_if(llvm::reverse(list), [&](Id a) {
      return llvm::is_contained(before[t], a) ||
             problem.transfers[a].queue == Queue::AllReduce;
    });
    list.insert(behind.base(), t);
  }
}

void FSDPOrder::start(Id t) {
  const Transfer &transfer = problem.transfers[t];
  hasStarted[t] = true;
  result.place[t] = result.line.size();
  result.issue.push_back(t);
  Id &last = lastOnLink[transfer.cost.link];
  if (last >= 0 && problem.transfers[last].queue != transfer.queue)
    result.after[t].push_back(last);
  last = t;
  // On the reduce_scatter's stream an all_reduce comes before the next one.
  for (Id a : before[t])
    if (!llvm::is_contained(transfer.after, a))
      result.after[t].push_back(a);
  if (transfer.queue != Queue::Reduce)
    return;
  if (lastReduction >= 0 && options.waitForReductions)
    result.known[lastReduction] =
        std::max<Id>(result.place[t], result.place[lastReduction]);
  lastReduction = t;
}

/// A fetch stands behind what it fetches, even where gathers come first; and so
/// do those behind it on its queue.
void FSDPOrder::startGathers(size_t at) {
  QueueMask held = 0;
  for (Id t : gathers[at]) {
    QueueMask queue = maskOf(problem.transfers[t].queue);
    if (!llvm::all_of(before[t], [&](Id a) { return hasStarted[a]; }))
      held |= queue;
    if (hasStarted[t] || (held & queue))
      continue;
    for (Id f : casts[t])
      result.line.push_back({true, f});
    start(t);
  }
}

Schedule FSDPOrder::write() {
  size_t n = problem.transfers.size(), segments = problem.spine.size();
  result.place.resize(n);
  result.after.resize(n);
  result.placeCause.assign(n, Cause::Limit);
  result.known.assign(n, segments + problem.floating.size());
  sortByPlace(findPlaces());
  for (size_t at = 0; at <= segments; ++at) {
    if (options.gathersFirst)
      startGathers(at);
    for (Id t : others[at])
      start(t);
    startGathers(at);
    if (at != segments)
      result.line.push_back({false, Id(at)});
  }
  for (Id f : getTailOrder(problem))
    result.line.push_back({true, f});
  return std::move(result);
}

Schedule mlir::fsdp::sched::orderLikeFSDP(const ScheduleProblem &problem,
                                          const FSDPOptions &options) {
  ScheduleProblem limited = withLimits(problem, options);
  return FSDPOrder(limited, options).write();
}

Schedule mlir::fsdp::sched::scheduleLikeFSDP(const ScheduleProblem &problem,
                                             const FSDPOptions &options) {
  Schedule result = orderLikeFSDP(problem, options);
  result.makespan = simulate(problem, result).step;
  result.peak = getPeak(problem, result);
  return result;
}
