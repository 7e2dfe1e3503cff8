//===- LowerBound.cpp - What no schedule can beat -------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Bounds by the graph of what precedes what (BoundGraph.h), with reductions
// whose place memory leaves open decided either way, and then by a search of
// events that counts contention as a slower clock.
//
//===----------------------------------------------------------------------===//

#include "fsdp/Schedule/LowerBound.h"
#include "BoundGraph.h"
#include "EventSearch.h"

#include "llvm/ADT/Twine.h"

#include <algorithm>

using namespace mlir::fsdp;
using namespace mlir::fsdp::sched;
using llvm::SmallVector;
using llvm::Twine;

static constexpr int kRounds = 8;

LeastTails mlir::fsdp::sched::getLeastTails(const ScheduleProblem &problem) {
  return BoundGraph(problem).getLeastTails();
}

/// A step that takes less than some time makes the early choice wherever the
/// late one takes longer. Where all these together take longer too, there is no
/// such step.
Bound mlir::fsdp::sched::lowerBound(const ScheduleProblem &problem) {
  BoundGraph graph(problem);
  Bound bound = graph.getBound();
  for (int round = 0; round != kRounds; ++round) {
    SmallVector<Choice> early;
    Time next = std::numeric_limits<Time>::max();
    for (const Choice &choice : graph.getChoices())
      if (choice.late > bound.value) {
        early.push_back(choice);
        next = std::min(next, choice.late);
      }
    if (early.empty())
      break;
    Bound better = BoundGraph(problem, early).getBound();
    better.value = std::min(better.value, next);
    if (better.value <= bound.value)
      break;
    bound = better;
  }
  return bound;
}

std::string mlir::fsdp::sched::describeLimit(const ScheduleProblem &problem,
                                             const Bound &bound, Time least) {
  Time compute = 0;
  for (const SpineSegment &segment : problem.spine)
    compute += segment.work;
  for (const FloatingOp &op : problem.floating)
    compute += op.work;
  switch (bound.binding) {
  case Bound::CriticalPath:
    // A chain of nothing but compute says less.
    return compute == bound.value && least - compute <= compute / 100
               ? "compute"
               : "the longest chain of dependencies";
  case Bound::Queue:
    return bound.bindingIndex == 0
               ? "compute"
               : ("the " + Twine(kQueueNames[bound.bindingIndex]) + " queue")
                     .str();
  case Bound::Link:
    return ("the " + Twine(kLinkNames[bound.bindingIndex]) + " link").str();
  case Bound::Contention:
    return "compute, slowed down by the transfers beside it";
  }
  llvm_unreachable("not a kind");
}

//===----------------------------------------------------------------------===//
// Contention and order together
//===----------------------------------------------------------------------===//

namespace {
/// Measures a step by a clock that runs slower: beside the transfers of one
/// link as compute does, and while compute waits so much slower that by it no
/// transfer is ever more than @faster times as fast as alone. Nor is compute
/// faster than alone. So by that clock nothing takes less than a step without
/// contention whose transfers take less by @faster: the search of events says
/// what that is.
///
/// By the real clock there is more: each wait is @faster times as long, and
/// compute is slowed down by what the link has to do, @work, but for what it
/// does in waits. Of each picosecond of it that takes @price.
struct SlowClock {
  double faster = 1, price = 0;
  Time work = 0;

  SlowClock(const ScheduleProblem &problem, Id link);
  /// Of a wait by this clock, what the step takes longer by the real one: at
  /// most as much as it would compute, so that what computes longer by this
  /// clock does not take less.
  double getWaitFactor() const { return faster * (1 - price); }
  ScheduleProblem measure(const ScheduleProblem &problem) const;

private:
  static Time getBusy(const ScheduleProblem &p, Id link);
};
} // namespace

SlowClock::SlowClock(const ScheduleProblem &p, Id link) {
  constexpr QueueMask compute = maskOf(Queue::Compute);
  // The most speed that compute has beside the link, that the link has beside
  // compute, and that any transfer has.
  int computes = 1, sends = 1, any = 1;
  for (const Transfer &x : p.transfers) {
    QueueMask both = compute | maskOf(x.queue);
    int rate = p.cost->rate(x.queue, both);
    any = std::max(any, rate);
    if (x.cost.link != link)
      continue;
    sends = std::max(sends, rate);
    computes = std::max(computes, p.cost->rate(Queue::Compute, both));
  }
  work = getBusy(p, link);
  faster = std::max(1.0, double(any) / computes);
  price = std::min(1.0, double(kFullRate - computes) / sends);
}

/// How long something is under way on @link at least. Latencies count: those of
/// one queue follow each other, and some transfers are beside nothing there.
Time SlowClock::getBusy(const ScheduleProblem &p, Id link) {
  std::vector<bool> apart = getApart(p);
  Time alone = 0, work = 0;
  std::array<Time, kNumQueues> queues = {};
  for (auto [t, x] : llvm::enumerate(p.transfers)) {
    if (x.cost.link != link)
      continue;
    if (apart[t]) {
      alone += x.cost.total();
      continue;
    }
    work += x.cost.work;
    queues[int(x.queue)] += x.cost.total();
  }
  return alone + std::max(work, *llvm::max_element(queues));
}

ScheduleProblem SlowClock::measure(const ScheduleProblem &problem) const {
  ScheduleProblem result = problem;
  result.cost = nullptr;
  for (Transfer &x : result.transfers) {
    x.cost.latency = Time(double(x.cost.latency) / faster);
    x.cost.work = Time(double(x.cost.work) / faster);
  }
  return result;
}

/// What memory and order make compute wait, and what contention takes from it,
/// both at once. @bound is one, @enough as in raiseBound.
static Time raiseContended(const ScheduleProblem &problem, Id link, Time bound,
                           Time enough) {
  SlowClock clock(problem, link);
  double factor = clock.getWaitFactor();
  double slowed = clock.price * double(clock.work);
  if (slowed == 0 || factor <= 0 || bound >= enough)
    return bound;
  Time compute = 0;
  for (const SpineSegment &s : problem.spine)
    compute += s.work;
  for (const FloatingOp &f : problem.floating)
    compute += f.work;
  // Times are rounded, by less than that.
  constexpr double kRounded = 1e-12;
  auto toReal = [&](Time byClock) {
    double least =
        double(compute) + slowed + factor * double(byClock - compute);
    return Time(least * (1 - kRounded)) - 1;
  };
  ScheduleProblem measured = clock.measure(problem);
  double waits = (double(enough - compute) - slowed) / factor;
  Time most = compute + std::max<Time>(0, Time(waits * (1 + kRounded)) + 4);
  Time least = raiseBound(measured, lowerBound(measured).value, most);
  return std::max(bound, std::min(enough, toReal(least)));
}

Time mlir::fsdp::sched::raiseBound(const ScheduleProblem &problem, Time bound,
                                   Time enough) {
  bound = searchEvents(problem, getLeastTails(problem),
                       {bound, enough, kEventEffort})
              .bound;
  for (Id link = 0; problem.cost && link != problem.numLinks; ++link)
    bound = raiseContended(problem, link, bound, enough);
  return bound;
}
