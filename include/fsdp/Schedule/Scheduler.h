//===- Scheduler.h - Order and places of a step -----------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Chooses the order on shared links, how far ahead gathers run and where
// casts and tails stand. Memory is turned into order first; then a dynamic
// program over the turns on the link keeps, of all ways to have issued the same
// transfers, those that no other beats. FSDP's own schedules are candidates, so
// the result is never slower than they are. The result depends on the problem
// alone.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_SCHEDULE_SCHEDULER_H
#define FSDP_SCHEDULE_SCHEDULER_H

#include "fsdp/Schedule/ScheduleProblem.h"

#include <optional>

namespace mlir::fsdp::sched {

/// The smallest budget for which `schedule` has an answer: each transfer alone,
/// where it is needed or as soon as it can be.
int64_t getLeastBudget(const ScheduleProblem &problem);

/// None where the budget is below getLeastBudget. @problem must satisfy
/// checkProblem. Schedule::peak is at most the budget.
std::optional<Schedule> schedule(const ScheduleProblem &problem);

/// What schedule() begins with.
std::optional<Schedule> scheduleRoughly(const ScheduleProblem &problem);

/// What schedule() ends with: it takes as long as all before and seldom saves
/// more than a hundredth, so those who choose between schedules refine the one
/// that they take. @rough: any within the budget; its bound is 0, or holds for
/// @problem.
Schedule refine(const ScheduleProblem &problem, Schedule rough);

/// The makespan of a schedule that is found with less care, for those who
/// compare problems. @bound: the problem's lowerBound, which they have. Where
/// it would not be less than @below, it may be anything that is not.
std::optional<Time> getScheduledTime(const ScheduleProblem &problem, Time bound,
                                     Time below);

} // namespace mlir::fsdp::sched

#endif // FSDP_SCHEDULE_SCHEDULER_H
