//===- GroupCheck.h - Do collectives join the right ranks? ------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_ANALYSIS_STEP_GROUPCHECK_H
#define FSDP_ANALYSIS_STEP_GROUPCHECK_H

#include "fsdp/Dialect/FSDP/IR/FSDP.h"
#include "fsdp/Schedule/StepProgram.h"

namespace mlir::fsdp {

/// Collectives join the ranks that differ in what they join: a gather those
/// that hold the other shards, a reduction those with other batches or shards.
/// What ranks compute of their shards is added up before it meets anything
/// else. After the step ranks agree on what they are replicas of, on the loss
/// and on the gradient's norm, all of which are means over the ranks; and the
/// norm counts every gradient. The loss of an evaluation depends on the rank's
/// own batch alone. @program and @origins are what extractStepProgram makes of
/// @step: they name the units.
LogicalResult checkGroups(ProgramOp step, const sched::StepProgram &program,
                          ArrayRef<Operation *> origins);

} // namespace mlir::fsdp

#endif // FSDP_ANALYSIS_STEP_GROUPCHECK_H
