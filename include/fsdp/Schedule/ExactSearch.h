//===- ExactSearch.h - The best schedule of a small step --------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The reference that the scheduler is tested against: it tries every order in
// which a program can issue the step (where each start stands among compute,
// whose turn it is on each link, where tails and casts stand), drops what a
// program that has issued the same has beaten, and shares no code with the
// scheduler. Transfers on one link run one after the other and nothing slows
// anything down.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_SCHEDULE_EXACTSEARCH_H
#define FSDP_SCHEDULE_EXACTSEARCH_H

#include "fsdp/Schedule/ScheduleProblem.h"

#include <optional>

namespace mlir::fsdp::sched {

struct ExactResult {
  /// The least makespan below the one that was asked for; none if there is no
  /// such schedule.
  std::optional<Time> makespan;
  /// What takes that long; without a peak.
  Schedule schedule;
  /// False: given up at the most states allowed; then `makespan` is the best
  /// that was found.
  bool complete = true;
  int64_t states = 0;
};

/// Searches for schedules that take less than @below within the budget. At most
/// 64 transfers.
ExactResult
searchExactly(const ScheduleProblem &problem,
              Time below = std::numeric_limits<Time>::max(),
              int64_t maxStates = std::numeric_limits<int64_t>::max());

} // namespace mlir::fsdp::sched

#endif // FSDP_SCHEDULE_EXACTSEARCH_H
