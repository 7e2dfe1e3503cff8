//===- StepExtraction.h - A step's program from its IR ----------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_ANALYSIS_STEPEXTRACTION_H
#define FSDP_ANALYSIS_STEPEXTRACTION_H

#include "fsdp/Analysis/Schedule/StepProgram.h"

#include "mlir/IR/BuiltinOps.h"

namespace mlir::fsdp {

/// The program of the module's @step: a straight list of launches, collectives,
/// packs and views that fsdp-plan-arena has placed. A collective is a start
/// with its wait right behind it. Reports what it cannot express.
FailureOr<sched::StepProgram> extractStepProgram(ModuleOp module);

} // namespace mlir::fsdp

#endif // FSDP_ANALYSIS_STEPEXTRACTION_H
