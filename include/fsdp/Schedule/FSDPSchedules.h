//===- FSDPSchedules.h - What FSDP would do ---------------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The schedules of hand-wrapped FSDP: the candidates that the scheduler must
// not lose to, and the baseline of comparisons.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_SCHEDULE_FSDPSCHEDULES_H
#define FSDP_SCHEDULE_FSDPSCHEDULES_H

#include "fsdp/Schedule/ScheduleProblem.h"
#include "fsdp/Support/OptionWords.h"

namespace mlir::fsdp::sched {

enum class BackwardPrefetch { None, Pre, Post };

struct FSDPOptions {
  bool forwardPrefetch = true;
  BackwardPrefetch backwardPrefetch = BackwardPrefetch::Pre;
  bool limitAllGathers = true;
  /// The all_reduce of hybrid sharding follows on the reduce_scatter's stream.
  bool allReduceOnReduceQueue = false;
  /// Where both are issued at one place: the prefetch before the reduction.
  bool gathersFirst = false;
  /// Compute waits for a reduction before the next one is issued, so that two
  /// of their inputs never live at once beside the one that is being made.
  bool waitForReductions = true;
};

/// The order alone, without makespan and peak.
Schedule orderLikeFSDP(const ScheduleProblem &problem,
                       const FSDPOptions &options);

/// The order in which FSDP issues this step; on one link, as on one
/// communicator, one after the other. It does not look at the budget.
Schedule scheduleLikeFSDP(const ScheduleProblem &problem,
                          const FSDPOptions &options);

} // namespace mlir::fsdp::sched

namespace mlir::fsdp {
FSDP_WORDS(sched::BackwardPrefetch,
           {E::Pre, "pre", "before the gradients of this one (default)"},
           {E::Post, "post", "after the gradients of this one"},
           {E::None, "none", "when it is read"})
} // namespace mlir::fsdp

#endif // FSDP_SCHEDULE_FSDPSCHEDULES_H
