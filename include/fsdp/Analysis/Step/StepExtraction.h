//===- StepExtraction.h - A step's program from its IR ----------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_ANALYSIS_STEP_STEPEXTRACTION_H
#define FSDP_ANALYSIS_STEP_STEPEXTRACTION_H

#include "fsdp/Schedule/StepProgram.h"

#include "fsdp/Dialect/FSDP/IR/FSDP.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"

namespace mlir::fsdp {

/// The ranks of @axes of @mesh; none where these are not neighbours, whose
/// ranks are not equally far apart.
std::optional<sched::RankGroup> getRankGroup(MeshOp mesh, ArrayAttr axes);

/// The program of @step: a straight list of launches, collectives,
/// packs and views that fsdp-plan-arena has placed, before or after it was
/// scheduled. A collective that is not in fsdp.start is a start with its wait
/// right behind it. Reports what it cannot express. @origins gets the op of the
/// IR that each op of the program comes from.
FailureOr<sched::StepProgram>
extractStepProgram(ProgramOp step,
                   SmallVectorImpl<Operation *> *origins = nullptr);

/// The same as an analysis: of one pass, or of several that follow each other
/// in a pipeline of programs and preserve it. MLIR drops it where the pipeline
/// ends, so passes that change kernels, which it holds the costs of, do not
/// find it.
struct ExtractedStep {
  explicit ExtractedStep(Operation *step)
      : program(extractStepProgram(cast<ProgramOp>(step), &origins)) {}

  SmallVector<Operation *> origins;
  FailureOr<sched::StepProgram> program;
};

/// A step without places: what decides where its values lie.
struct StepMemory {
  struct Place {
    /// Value of the program, and bytes behind its begin.
    sched::Id value = -1;
    int64_t distance = 0;
  };
  /// Ops with what they touch, in a form that shareBuffers takes: no kernels,
  /// transfers, groups or units.
  sched::StepProgram program;
  /// Of all values of the IR, those inside of fsdp.start and views as well.
  llvm::DenseMap<Value, Place> places;
};

/// The same of a step that may be without places; those it has are ignored.
/// Reports transfers that it does not know.
FailureOr<StepMemory> extractStepMemory(ProgramOp step);

/// What kept a start where it is, as it is written; none where that was only
/// what it sends. And back.
std::optional<Hold> getHold(sched::Cause cause);
sched::Cause getCause(Hold hold);

} // namespace mlir::fsdp

#endif // FSDP_ANALYSIS_STEP_STEPEXTRACTION_H
