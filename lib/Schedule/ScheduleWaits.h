//===- ScheduleWaits.h - What a schedule waits for --------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_LIB_SCHEDULE_SCHEDULEWAITS_H
#define FSDP_LIB_SCHEDULE_SCHEDULEWAITS_H

#include "fsdp/Schedule/ScheduleProblem.h"

namespace mlir::fsdp::sched {

/// Without the order on shared links: latencies overlap then, and links are
/// shared evenly.
Schedule shareLinks(const ScheduleProblem &problem, Schedule schedule);

/// The same without waits and links' order that only memory asks for.
Schedule withoutMemoryOrder(const ScheduleProblem &problem, Schedule schedule);

/// Inputs of transfers are free for good where compute knows that these are
/// over, and no place is good for anything else while it does not. So it waits
/// where, by the simulation, they have long been over: twice their own time
/// after they began. That costs nothing, unless they are late by all of it.
void waitEarly(const ScheduleProblem &problem, Schedule &schedule);

} // namespace mlir::fsdp::sched

#endif // FSDP_LIB_SCHEDULE_SCHEDULEWAITS_H
