//===- KernelTies.h - Kernels that work in place ----------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_ANALYSIS_KERNELTIES_H
#define FSDP_ANALYSIS_KERNELTIES_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::fsdp {

/// Whether @kernel may write result @result over input @input: it reads the
/// input only where it writes, and not behind that.
bool mayWriteOver(func::FuncOp kernel, unsigned input, unsigned result);

/// Whether result @result of @kernel depends on what lies where it is written.
bool readsDestination(func::FuncOp kernel, unsigned result);

/// Fails, with a diagnostic, where a launch of @step ties a result to an input
/// that its kernel surely needs when it has written there (a product's, or one
/// that is read at computed places), or ties one to nothing whose kernel goes on
/// with what lies there.
LogicalResult checkTies(func::FuncOp step);

} // namespace mlir::fsdp

#endif // FSDP_ANALYSIS_KERNELTIES_H
