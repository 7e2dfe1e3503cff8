//===- RoundedFunctions.h - Functions whose values are rounded --*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_ANALYSIS_KERNELS_ROUNDEDFUNCTIONS_H
#define FSDP_ANALYSIS_KERNELS_ROUNDEDFUNCTIONS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseSet.h"

namespace mlir::fsdp {

/// Exponentials, hyperbolic tangents, error functions and divisions in the
/// bodies of `kernel`, at most of f32, whose value is of 16 bits or reaches
/// memory only through values that are rounded to 16 bits. A sum over terms of
/// which such values are made as well, a bias's gradient beside the one that
/// goes to a product, may be wider: its terms are those that are rounded. What
/// a comparison or a branch depends on is not among them.
llvm::DenseSet<Operation *> findRoundedFunctions(func::FuncOp kernel);

} // namespace mlir::fsdp

#endif // FSDP_ANALYSIS_KERNELS_ROUNDEDFUNCTIONS_H
