//===- SchedulePeak.h - Legality and memory of a schedule -------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_SCHEDULE_SCHEDULEPEAK_H
#define FSDP_SCHEDULE_SCHEDULEPEAK_H

#include "fsdp/Schedule/ScheduleProblem.h"

namespace mlir::fsdp::sched {

/// The first rule that @schedule breaks, or an empty string. Memory apart.
std::string checkSchedule(const ScheduleProblem &problem,
                          const Schedule &schedule);

/// The most bytes in use at once in any timing of @schedule: everything may
/// take as long as it likes, only the order holds. Exact where gathers make
/// more of their inputs and reductions less; above it otherwise.
int64_t getPeak(const ScheduleProblem &problem, const Schedule &schedule);

/// Whether that is within the budget: sooner known than how much it is.
bool fitsBudget(const ScheduleProblem &problem, const Schedule &schedule);

/// The same by segment: while it runs and on its borders.
std::vector<int64_t> getPeaks(const ScheduleProblem &problem,
                              const Schedule &schedule);

} // namespace mlir::fsdp::sched

#endif // FSDP_SCHEDULE_SCHEDULEPEAK_H
