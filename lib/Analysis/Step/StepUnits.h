//===- StepUnits.h - Which unit an op works for -----------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_LIB_ANALYSIS_STEP_STEPUNITS_H
#define FSDP_LIB_ANALYSIS_STEP_STEPUNITS_H

#include "fsdp/Analysis/Step/ProgramStates.h"
#include "fsdp/Schedule/StepProgram.h"

#include "llvm/ADT/DenseMap.h"

namespace mlir::fsdp {

/// Flat parameters, by name, and the one that each op works for.
struct StepUnits {
  std::vector<std::string> names;
  /// Places in @names; ops that work for none are not there.
  llvm::DenseMap<Operation *, sched::Id> ofOps;

  /// -1: none.
  sched::Id lookup(Operation *op) const {
    auto it = ofOps.find(op);
    return it == ofOps.end() ? -1 : it->second;
  }
};

/// The units of @step: a gather belongs to the shard that it gathers, a
/// reduction to the shard that is updated with it, a kernel to what it reads of
/// a gathered unit, a copy to what made the value.
StepUnits findUnits(ProgramOp step, const ProgramStates &states);

/// What the flat parameter of each unit holds, by name.
std::vector<std::vector<std::string>> getUnitMembers(ProgramOp step,
                                                     const StepUnits &units);

} // namespace mlir::fsdp

#endif // FSDP_LIB_ANALYSIS_STEP_STEPUNITS_H
