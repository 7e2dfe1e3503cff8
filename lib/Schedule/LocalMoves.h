//===- LocalMoves.h - A schedule, changed a little --------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_LIB_SCHEDULE_LOCALMOVES_H
#define FSDP_LIB_SCHEDULE_LOCALMOVES_H

#include "fsdp/Schedule/ScheduleProblem.h"

namespace mlir::fsdp::sched {

/// Transfers that share a link hide each other's latencies, and slow down what
/// compute waits for. The searches let all share, or none, or count the sharing
/// by a rule; the simulation knows. So it is asked: @schedule, which fits the
/// budget, with one transfer behind another on its link or no longer behind it,
/// or with one a place earlier or later, again and again, as long as that takes
/// less. @target: no order does.
Schedule moveLocally(const ScheduleProblem &problem, Schedule schedule,
                     Time target);

} // namespace mlir::fsdp::sched

#endif // FSDP_LIB_SCHEDULE_LOCALMOVES_H
