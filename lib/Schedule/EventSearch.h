//===- EventSearch.h - What can happen in a step ----------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A* over the events of a step: something begins, or what is under way is over.
// At each event something begins, or nothing does until the next one. Of the
// ways to one state those go on that no other beats, the one with the least
// bound first: once that is at the end, or effort is spent, no step takes less.
//
// For that the steps that are searched are better than real ones: memory is
// counted as time goes by, not for any timing; nothing slows down what runs
// beside it; and links work on one transfer after the other, in whatever order
// they are to be over, so that nobody is better off who begins between two
// events instead of at the first of them. Where that leaves something open, the
// same is asked with time as the simulation counts it (EventTiming.cpp).
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_LIB_SCHEDULE_EVENTSEARCH_H
#define FSDP_LIB_SCHEDULE_EVENTSEARCH_H

#include "fsdp/Schedule/ScheduleProblem.h"

#include <optional>

namespace mlir::fsdp::sched {

/// From the end of each segment and transfer to the end of the step at least.
struct LeastTails {
  std::vector<Time> segments, transfers;
};

struct EventSearchResult {
  /// No step takes less; at most `enough`.
  Time bound = 0;
  /// A way that takes `bound`, if the search came to its end. Its makespan and
  /// its peak are for the caller to find out.
  std::optional<Schedule> schedule;
};

/// What runs side by side does to each other.
enum class Links {
  /// Nothing slows anything down, and a link works on one transfer after the
  /// other. So whoever is ahead stays so.
  Ideal,
  /// As above, and transfers wait until their link is free, latency and all.
  /// The bound is that of such steps alone.
  Exclusive,
  /// What the simulation says: links are shared evenly, and the problem's rates
  /// count. Then who is ahead may end up behind: what is found is good, not
  /// surely the best, and the bound is not raised.
  Simulated
};

struct EventSearchOptions {
  /// No step takes less.
  Time bound = 0;
  /// Ways that take as much are of no use.
  Time enough = 0;
  /// States to look at, at most.
  int64_t effort = 0;
  Links links = Links::Ideal;
  /// So many 64ths of the time that is left count once more: of ways with equal
  /// bounds, and with a little more, those that have come further go on. What
  /// is found first need not be the best, and the bound is not raised.
  int haste = 0;
  /// With Links::Simulated: nobody who is ahead keeps others from going on,
  /// only who is as far as they are in everything, no later. So what comes to
  /// the end is the best, and the bound is one; but few of larger steps do.
  bool equalsOnly = false;
};

/// States that are worth looking at. Counted, not timed: the same everywhere.
constexpr int64_t kEventEffort = 20'000;

/// From the graph of LowerBound.cpp.
LeastTails getLeastTails(const ScheduleProblem &problem);

/// @behind: of @problem.
EventSearchResult searchEvents(const ScheduleProblem &problem,
                               const LeastTails &behind,
                               const EventSearchOptions &options);

} // namespace mlir::fsdp::sched

#endif // FSDP_LIB_SCHEDULE_EVENTSEARCH_H
