//===- RandomProblems.h - Steps to schedule, from a seed --------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_TEST_SCHEDULE_RANDOMPROBLEMS_H
#define FSDP_TEST_SCHEDULE_RANDOMPROBLEMS_H

#include "fsdp/Schedule/ScheduleProblem.h"

namespace mlir::fsdp::sched::test {

/// A step of fully sharded units with a loss between forward and backward.
struct RandomOptions {
  int units = 6;
  /// All transfers on the main link together over all compute.
  double ratio = 0.8;
  /// Units of memory beside activations and the inputs of one reduction; 0: no
  /// budget.
  double rooms = 3;
  /// Sizes and times differ from their mean by up to this part.
  double spread = 0.3;
  enum { None, OwnLink, SharedLink } hybrid = None;
  /// Updates behind the reductions, as a part of compute.
  double tails = 0.02;
  /// A norm over all gradients comes before all updates.
  bool clip = false;
  /// Something behind all tails reads what the reductions bring, too.
  bool stay = false;
  bool casts = false;
  /// The last unit is not gathered again.
  bool keepLast = true;
  /// The first unit (the root) stays gathered through the step.
  bool keepFirst = false;
  /// Of each transfer, in parts of its work.
  double latency = 0;
  /// Activations of every other unit wait on the host, over links of their own.
  /// A copy takes so much of the unit's forward; 0: none does.
  double copies = 0;
  /// Each gather reads a shard that is fetched from the host.
  bool fetches = false;
};

ScheduleProblem makeProblem(const RandomOptions &options, uint64_t seed);

/// Options that a seed picks over the whole range.
RandomOptions pickOptions(uint64_t seed);

} // namespace mlir::fsdp::sched::test

#endif // FSDP_TEST_SCHEDULE_RANDOMPROBLEMS_H
