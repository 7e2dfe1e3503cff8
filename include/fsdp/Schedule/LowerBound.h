//===- LowerBound.h - What no schedule can beat -----------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A bound on the step from the cost model and the budget, without a search:
// the longest chain (with what memory forces to come before what), for each
// resource what Jackson's preemptive rule takes with each operation's least
// time before it (head) and behind it (tail), and from any time on what is left
// for a queue with what it loses beside what is left for others. It holds for
// all the freedom that ScheduleProblem.h states.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_SCHEDULE_LOWERBOUND_H
#define FSDP_SCHEDULE_LOWERBOUND_H

#include "fsdp/Schedule/ScheduleProblem.h"

#include <string>

namespace mlir::fsdp::sched {

struct Bound {
  /// The largest of the following.
  Time value = 0;
  Time critical = 0;
  /// By queue, Queue::Compute included, and by link.
  std::array<Time, kNumQueues> queues = {};
  std::vector<Time> links;
  /// The largest of these, raised by what transfers take from compute, and from
  /// each other on different links, while they run side by side.
  Time contended = 0;
  /// Which one it is, and the queue's or link's number.
  enum Kind { CriticalPath, Queue, Link, Contention } binding = CriticalPath;
  int bindingIndex = 0;
};

Bound lowerBound(const ScheduleProblem &problem);

/// The part of the machine that @bound of @problem comes from: "compute", "the
/// all_gather queue", "the longest chain of dependencies". @least: the bound
/// with what little memory costs on top.
std::string describeLimit(const ScheduleProblem &problem, const Bound &bound,
                          Time least);

/// No step takes less than this, either: at least @bound, which is one, raised
/// by a search of limited effort, and with contention by one more for each
/// link. Worth it where memory is short. @enough: a makespan; nobody asks for
/// more, and it is what comes where there is no step within the budget.
Time raiseBound(const ScheduleProblem &problem, Time bound, Time enough);

} // namespace mlir::fsdp::sched

#endif // FSDP_SCHEDULE_LOWERBOUND_H
