//===- StepSums.h - Sums over ranks of a module's programs ------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_ANALYSIS_STEP_STEPSUMS_H
#define FSDP_ANALYSIS_STEP_STEPSUMS_H

#include "fsdp/Schedule/StepProgram.h"

#include "mlir/IR/BuiltinOps.h"

#include <vector>

namespace mlir::fsdp {

/// What the programs of a module add up over more than one rank.
struct StepSums {
  int64_t worldSize = 1;
  /// Each collective by itself; its group is a place in `groups`.
  std::vector<sched::StepTransfer> transfers;
  std::vector<sched::RankGroup> groups;
  /// Whether NCCL may add up all of them: types that it has, and narrow floats,
  /// which it rounds at each hop, only if fsdp.reduce_dtype names them.
  bool areNcclTypes = true;
};

StepSums getStepSums(ModuleOp module);

} // namespace mlir::fsdp

#endif // FSDP_ANALYSIS_STEP_STEPSUMS_H
