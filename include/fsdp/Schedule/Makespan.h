//===- Makespan.h - What a schedule takes -----------------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Plays a schedule on its problem, by the engine of Timeline.h. It shares no
// code with the scheduler.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_SCHEDULE_MAKESPAN_H
#define FSDP_SCHEDULE_MAKESPAN_H

#include "fsdp/Schedule/ScheduleProblem.h"

namespace mlir::fsdp::sched {

struct Span {
  Time begin = 0, end = 0;
  /// Duration if nothing else ran.
  Time alone = 0;
  /// Compute: how long it waited. Transfer: how long its input waited for it.
  Time stall = 0;
  /// What ended last before it could begin: a transfer, or -1 for compute.
  Cause cause = Cause::None;
  Id blocker = -1;
};

struct Simulation {
  /// By place in Schedule::line, and by transfer.
  std::vector<Span> compute, transfers;
  Time step = 0;
  /// The step less its compute alone; split over the transfers without rest.
  Time exposed = 0;
  std::vector<Time> exposedBy;
  /// Bytes from a time on, in the order of time.
  std::vector<std::pair<Time, int64_t>> memory;
  /// The most of them. (Schedule::peak, for every timing, is at least that.)
  int64_t peak = 0;
};

/// By place on the line (the last entry: at the end) the transfers that compute
/// waits for there; each of them once, where it must first be known.
std::vector<llvm::SmallVector<Id, 2>> getWaits(const ScheduleProblem &problem,
                                               const Schedule &schedule);

/// @schedule must satisfy checkSchedule.
Simulation simulate(const ScheduleProblem &problem, const Schedule &schedule);

} // namespace mlir::fsdp::sched

#endif // FSDP_SCHEDULE_MAKESPAN_H
