//===- ScheduleWaits.cpp - What a schedule waits for ----------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ScheduleWaits.h"
#include "fsdp/Schedule/Makespan.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>

using namespace mlir::fsdp;
using namespace mlir::fsdp::sched;

/// Of what transfers come after besides their data, keeps what is on their own
/// link, or what is not.
static void keepAfter(const ScheduleProblem &problem, bool onOwnLink,
                      Schedule &schedule) {
  for (size_t t = 0; t != problem.transfers.size(); ++t)
    llvm::erase_if(schedule.after[t], [&](Id a) {
      return onOwnLink !=
             (problem.transfers[a].cost.link == problem.transfers[t].cost.link);
    });
}

Schedule mlir::fsdp::sched::shareLinks(const ScheduleProblem &problem,
                                       Schedule schedule) {
  keepAfter(problem, /*onOwnLink=*/false, schedule);
  return schedule;
}

void mlir::fsdp::sched::waitEarly(const ScheduleProblem &problem,
                                  Schedule &schedule) {
  Simulation simulation = simulate(problem, schedule);
  std::vector<bool> holds(problem.transfers.size());
  for (auto [t, transfer] : llvm::enumerate(problem.transfers))
    holds[t] = transfer.srcBytes != 0;
  for (const FloatingOp &op : problem.floating)
    if (op.before >= 0 && op.heldBytes)
      holds[op.before] = true;
  for (auto [t, span] : llvm::enumerate(simulation.transfers)) {
    if (!holds[t])
      continue;
    Time over = span.end + span.alone;
    auto first = llvm::partition_point(
        simulation.compute, [&](const Span &op) { return op.begin < over; });
    Id at = std::distance(simulation.compute.begin(), first);
    schedule.known[t] =
        std::min(schedule.known[t], std::max(at, schedule.place[t]));
  }
}

Schedule mlir::fsdp::sched::withoutMemoryOrder(const ScheduleProblem &problem,
                                               Schedule schedule) {
  schedule.known.assign(problem.transfers.size(), schedule.line.size());
  keepAfter(problem, /*onOwnLink=*/true, schedule);
  return schedule;
}
