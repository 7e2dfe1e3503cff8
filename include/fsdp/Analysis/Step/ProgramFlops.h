//===- ProgramFlops.h - Arithmetic of a program -----------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_ANALYSIS_STEP_PROGRAMFLOPS_H
#define FSDP_ANALYSIS_STEP_PROGRAMFLOPS_H

#include "fsdp/Cost/ModelFlops.h"
#include "fsdp/Dialect/FSDP/IR/FSDP.h"

namespace mlir::fsdp {

/// What the launches of @program compute in products and attention; nothing
/// where the body of a kernel is not known.
std::optional<ModelFlops> countFlops(ProgramOp program);

/// As `flops` of fsdp.program has it. And back.
FlopsAttr getFlopsAttr(MLIRContext *context, const ModelFlops &flops);
ModelFlops getModelFlops(FlopsAttr attr);

/// Of all types together.
int64_t getTotalFlops(FlopsAttr attr);

} // namespace mlir::fsdp

#endif // FSDP_ANALYSIS_STEP_PROGRAMFLOPS_H
