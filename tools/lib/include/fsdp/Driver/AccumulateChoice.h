//===- AccumulateChoice.h - Which accumulators are faster -------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// --accumulate-in auto: whole gradients are not communicated until the last
// micro-batch, and take as much memory as all parameters. So the step is
// planned with either, and of those that fit the one is taken whose
// micro-batches are faster: all but the last are that program's.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_DRIVER_ACCUMULATECHOICE_H
#define FSDP_DRIVER_ACCUMULATECHOICE_H

#include "fsdp/Cost/CostModel.h"
#include "fsdp/Dialect/FSDP/IR/FSDP.h"
#include "fsdp/Passes/OptionTypes.h"

#include <string>

namespace mlir::fsdp {

/// What came of planning all programs of a step with accumulators.
struct AccumulateTrial {
  AccumulateIn in = AccumulateIn::Shard;
  bool fits = false;
  /// Of a micro-batch and of the last one of a step, where all programs fit.
  Time microBatch = 0, last = 0;
  /// Bytes of the largest arena, where all programs fit.
  int64_t arenaBytes = 0;
  /// A memory budget that would do for all of them, in bytes.
  int64_t leastBudget = 0;

  /// Counts a program of that kind: the time of one run, and what its arena
  /// takes, in bytes.
  void add(ProgramKind kind, Time time, int64_t bytes);
};

/// The index of the one whose micro-batches are fastest, of those that fit;
/// where none does, of the one that needs least. Of equal ones, that with the
/// faster last micro-batch, then the first.
size_t pickAccumulate(llvm::ArrayRef<AccumulateTrial> trials);

/// "accumulate in shard: micro-batch 1.203 ms, last 2.310 ms, arena 81.2 MiB"
/// or "accumulate in whole: does not fit, 81.20 GiB would".
std::string describe(const AccumulateTrial &trial);

} // namespace mlir::fsdp

#endif // FSDP_DRIVER_ACCUMULATECHOICE_H
