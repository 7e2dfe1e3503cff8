//===- KernelTies.h - Kernels that work in place ----------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_ANALYSIS_KERNELS_KERNELTIES_H
#define FSDP_ANALYSIS_KERNELS_KERNELTIES_H

#include "fsdp/Dialect/FSDP/IR/FSDP.h"

namespace mlir::fsdp {

/// Fails, with a diagnostic, where a launch of @step ties a result to an input
/// that its kernel surely needs when it has written there (a product's, or one
/// that is read at computed places), or ties one to nothing whose kernel goes
/// on with what lies there.
LogicalResult checkTies(ProgramOp step);

} // namespace mlir::fsdp

#endif // FSDP_ANALYSIS_KERNELS_KERNELTIES_H
