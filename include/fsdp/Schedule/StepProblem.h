//===- StepProblem.h - From a program to a problem and back -----*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Tells spine, casts and tails of a program apart by its data alone:
//
//   - Tails are computed from what a reduction gave: norms and updates.
//   - Casts are computed from arguments for one gather and nothing else.
//   - What stands behind a transfer of a tail's result (the norm that is summed
//     over ranks, and with clipping all updates) is the epilogue: it runs at
//     the end, one op after the other.
//   - All other compute is the spine.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_SCHEDULE_STEPPROBLEM_H
#define FSDP_SCHEDULE_STEPPROBLEM_H

#include "fsdp/Schedule/LowerBound.h"
#include "fsdp/Schedule/Timeline.h"

#include "llvm/Support/Error.h"

namespace mlir::fsdp::sched {

enum class OpRole : uint8_t { Spine, Cast, Tail, Epilogue };

struct StepProblem {
  ScheduleProblem problem;
  /// Ops of the program, by segment, floating op and transfer (its start).
  std::vector<std::vector<Id>> segments;
  std::vector<Id> floating, transfers;
  /// Launches, copies, checks and starts, in order.
  std::vector<Id> epilogue;
  /// How long the epilogue takes.
  Time epilogueTime = 0;
  /// Of the problem's fixedBytes, what is not there all the time: tails and
  /// the epilogue make it for each other. The bound does without.
  int64_t tailBytes = 0;
  /// A reduction waits for compute that only tails behind it wait for: a tail
  /// has no place in the spine of its own. The bound does without.
  bool isHeld = false;
  /// By op of the program.
  std::vector<OpRole> roles;
};

/// The problem whose one answer is @program, with the times that addTimes gave.
/// @program is in L2's order: every wait stands before what reads its value.
/// An error names what is not of the form that the scheduler knows. Without
/// @holds tails may come before compute whose values they read or write over:
/// no order may, but more of them are there than with it.
llvm::Expected<StepProblem> getStepProblem(const StepProgram &program,
                                           const TimedProgram &times,
                                           bool holds = true);

} // namespace mlir::fsdp::sched

#endif // FSDP_SCHEDULE_STEPPROBLEM_H
