//===- EventSearch.h - What can happen in a step ----------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A* over the events of a step: something begins, or what is under way is over.
// Whoever begins between two events could have begun at the first of them, so
// at each event something begins, or nothing does until the next one. Of the
// ways to one state those go on that no other beats, the one with the least
// bound first: once that is at the end, or effort is spent, no step takes less.
//
// Memory is counted as time goes by; that an order must fit however long its
// parts take is left out, and so is what runs side by side slowing each other
// down. Both make steps shorter only.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_LIB_ANALYSIS_SCHEDULE_EVENTSEARCH_H
#define FSDP_LIB_ANALYSIS_SCHEDULE_EVENTSEARCH_H

#include "fsdp/Analysis/Schedule/ScheduleProblem.h"

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

/// LowerBound.cpp knows it.
LeastTails getLeastTails(const ScheduleProblem &problem);

/// @bound is one already. Looks at @effort states at most, and only for ways
/// that take less than @enough. Not @shared: for those whose transfers wait
/// until their link is free, latency and all. Then `bound` is theirs alone.
EventSearchResult searchEvents(const ScheduleProblem &problem, Time bound,
                               Time enough, int64_t effort, bool shared = true);

} // namespace mlir::fsdp::sched

#endif // FSDP_LIB_ANALYSIS_SCHEDULE_EVENTSEARCH_H
