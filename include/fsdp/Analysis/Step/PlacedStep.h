//===- PlacedStep.h - Are a step's places well formed? ----------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What must hold of a step and its places before anybody may read them: people
// edit IR by hand. Emits errors at the op that is wrong.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_ANALYSIS_STEP_PLACEDSTEP_H
#define FSDP_ANALYSIS_STEP_PLACEDSTEP_H

#include "fsdp/Schedule/StepProgram.h"

#include "fsdp/Dialect/FSDP/IR/FSDP.h"

namespace mlir::fsdp {

/// @step is a straight list of ops that a planned step may have, each argument
/// and result has a place of its type inside of the arena, and views, waits and
/// what they are of lie in one place; and its module has at most one mesh.
LogicalResult checkPlacedStep(ProgramOp step);

/// The program's #fsdp.arena says what the places are: the segments hold what
/// they are named after, one behind the other, and end with the last buffer,
/// and the peak is no less than what @program, which extractStepProgram makes
/// of @step, uses where nothing runs beside anything. With a @budget (bytes; 0:
/// none) the arena is within it. @step must satisfy checkPlacedStep.
LogicalResult checkArenaSummary(ProgramOp step,
                                const sched::StepProgram &program,
                                int64_t budget);

} // namespace mlir::fsdp

#endif // FSDP_ANALYSIS_STEP_PLACEDSTEP_H
