//===- Recomputation.h - What backward computes again -----------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Each value that forward leaves for backward is either kept, which costs its
// bytes, or computed again from kept ones, which costs time; or it is kept
// elsewhere, in the host's memory, which costs time on a link. For one price of
// a byte the cheapest choice is a minimal cut. A chain of repeated launches
// stays within one stretch of forward: otherwise backward would begin with all
// of forward once more, and as much memory.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_PLANNING_RECOMPUTATION_H
#define FSDP_PLANNING_RECOMPUTATION_H

#include "fsdp/Planning/StepPlan.h"
#include "fsdp/Schedule/Timeline.h"

namespace mlir::fsdp::sched {

/// By op the stretch of forward that it belongs to, from 0 on; -1 outside of
/// forward. Stretches take about equally long, end where little is handed on,
/// and are as many as units are gathered in forward, or, where these are few,
/// the root of the number of launches.
std::vector<Id> getStretches(const StepProgram &program,
                             const TimedProgram &times);

/// What it costs to keep values.
struct KeepPrices {
  /// Picoseconds for a byte.
  double perByte = 0;
  /// By value: picoseconds for keeping it elsewhere; negative: it cannot be.
  /// Empty: none can.
  llvm::ArrayRef<double> elsewhere = {};
  bool mayRecompute = true;
};

class Recomputation {
public:
  Recomputation(const StepProgram &program, const TimedProgram &times,
                const PlanChoices &from);

  /// By value, as in StepPlan.
  struct Choice {
    std::vector<bool> recompute, offload;
  };
  /// Keeps all where a byte costs nothing, computes all that can save memory
  /// again at a high price. What is kept is offloaded where that costs less
  /// than its bytes.
  Choice choose(const KeepPrices &prices) const;

  /// Of getStretches.
  llvm::ArrayRef<Id> getStretchOfOps() const { return stretch; }

private:
  const StepProgram &program;
  const TimedProgram &times;
  PlanChoices choices;
  std::vector<Id> maker, stretch;
  /// By value: read by backward; read by a launch of another stretch.
  std::vector<bool> isNeeded, isHandedOn;
  /// By op: forward does not read its results.
  std::vector<bool> isMoved;
};

} // namespace mlir::fsdp::sched

#endif // FSDP_PLANNING_RECOMPUTATION_H
