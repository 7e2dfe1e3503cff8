//===- TracedStepReader.h - Reading one traced function ---------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_LIB_ANALYSIS_CONTRACT_TRACEDSTEPREADER_H
#define FSDP_LIB_ANALYSIS_CONTRACT_TRACEDSTEPREADER_H

#include "fsdp/Analysis/Contract/InputContract.h"

namespace mlir::fsdp {

/// What the arguments and results of @func are, by their attributes. Reports
/// what breaks the contract within the function; what it has to have in common
/// with others is checked by readTracedSteps.
FailureOr<TracedStep> readTracedFunction(func::FuncOp func, ProgramKind kind,
                                         StringRef name);

} // namespace mlir::fsdp

#endif // FSDP_LIB_ANALYSIS_CONTRACT_TRACEDSTEPREADER_H
