//===- Offloading.h - Values in the host's memory ---------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Between its last reader in forward and its first one in backward a value may
// be in the host's memory. That costs time on the host's links, which is hidden
// as long as they are not full.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_PLANNING_OFFLOADING_H
#define FSDP_PLANNING_OFFLOADING_H

#include "fsdp/Planning/StepPlan.h"
#include "fsdp/Schedule/Timeline.h"

namespace mlir::fsdp::sched {

/// @program, which may repeat launches already, with a copy to the host and one
/// back for each of its values that @offload names, by value; what comes behind
/// the end of @offload stays. Copies have no source.
StepProgram insertCopies(StepProgram program, const std::vector<bool> &offload);

/// What offloading costs, value by value.
struct OffloadOffers {
  /// Picoseconds on the links, both ways. kNone: it cannot be offloaded.
  std::vector<Time> cost;
  static constexpr Time kNone = -1;
  /// Whether it is worth while: the copies are more work than latency, and
  /// there is time for both before backward needs the value.
  std::vector<bool> pays;
  /// Picoseconds for a byte, both ways, of the largest value that pays; 0 where
  /// none does.
  double pricePerByte = 0;
};

/// @stretch: of getStretches. Without @hasHost nothing is offered. Nothing of
/// the last stretch is: backward begins there.
OffloadOffers getOffloadOffers(const StepProgram &program,
                               const TimedProgram &times,
                               const PlanChoices &choices,
                               llvm::ArrayRef<Id> stretch,
                               const CostModel &cost, bool hasHost);

} // namespace mlir::fsdp::sched

#endif // FSDP_PLANNING_OFFLOADING_H
