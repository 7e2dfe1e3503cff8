//===- ContendedSearch.h - The best step under contention -------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The reference for steps in which compute and transfers slow each other down
// and share links. In the timing of a program everything begins at the begin of
// the step or when something else is over; so this search goes from one such
// moment to the next and tries, at each, to begin any of what is next on its
// queue, or to leave it for a later one. That is all that programs can say,
// waits that nothing but the order asks for included: what it finds to be the
// best is so over every program. Only what begins at another moment, which no
// program can ask for, is left out.
//
// It shares no code with the scheduler; that it and the simulation agree, a
// test says. A state is dropped where the same (to the last picosecond of what
// is left of everything) was there before, no later. Unlike without contention,
// who is ahead may end up behind, by having begun beside something that it
// slows down: so being ahead is no reason to drop others, unless asked for.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_TEST_SCHEDULE_CONTENDEDSEARCH_H
#define FSDP_TEST_SCHEDULE_CONTENDEDSEARCH_H

#include "fsdp/Schedule/ScheduleProblem.h"

#include <optional>

namespace mlir::fsdp::sched::test {

struct ContendedOptions {
  /// Looks for what takes less.
  Time below = std::numeric_limits<Time>::max();
  /// States to look at, at most.
  int64_t maxStates = std::numeric_limits<int64_t>::max();
  /// Drops a state also where another is ahead of it in everything: sooner at
  /// the end, with what is good, but not surely the best.
  bool greedy = false;
};

struct ContendedResult {
  /// The least makespan below what was asked for; none if there is none.
  std::optional<Time> makespan;
  /// What takes that long; without a peak.
  Schedule schedule;
  /// False: given up; then `makespan` is the best that was found.
  bool complete = true;
  int64_t states = 0;
};

ContendedResult searchContended(const ScheduleProblem &problem,
                                const ContendedOptions &options = {});

} // namespace mlir::fsdp::sched::test

#endif // FSDP_TEST_SCHEDULE_CONTENDEDSEARCH_H
