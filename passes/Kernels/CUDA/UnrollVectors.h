//===- UnrollVectors.h - Vectors in memory, scalars elsewhere ---*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_PASSES_KERNELS_CUDA_UNROLLVECTORS_H
#define FSDP_PASSES_KERNELS_CUDA_UNROLLVECTORS_H

#include "mlir/Dialect/GPU/IR/GPUDialect.h"

namespace mlir::fsdp {

/// Replaces each op of @function that computes a vector element by element by
/// one op for each element: a CUDA thread has instructions for vectors only to
/// load and store them. Elements are computed by the same scalar ops, and so
/// have the same bits, as in a function without vectors.
void unrollVectors(gpu::GPUFuncOp function);

} // namespace mlir::fsdp

#endif // FSDP_PASSES_KERNELS_CUDA_UNROLLVECTORS_H
