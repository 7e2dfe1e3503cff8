//===- KernelUtils.h - Kernels and their implementations --------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_PASSES_KERNELS_KERNELUTILS_H
#define FSDP_PASSES_KERNELS_KERNELUTILS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"

namespace mlir::fsdp {

/// The nested module of fsdp-isolate-kernels.
constexpr llvm::StringLiteral kFallbackModule = "fallback";

/// torch-mlir guards reciprocals with an assertion of this text, which is
/// dropped: PyTorch divides as IEEE says.
constexpr llvm::StringLiteral kReciprocalGuard =
    "unimplemented: tensor with zero element";

/// The functions that the module launches and has, each once, in order of first
/// launch.
SmallVector<func::FuncOp> getKernels(ModuleOp module);

/// Whether a kernel already has code or is a matrix product.
bool hasImplementation(func::FuncOp kernel);

/// Scratch memory of at least `bytes` as an argument (never empty).
MemRefType getScratchType(MLIRContext *context, int64_t bytes);

/// Declares `<kernel>_cpu` behind the kernel and records it there as fsdp.impl.
func::FuncOp createImplementation(func::FuncOp kernel, OpBuilder &builder,
                                  ArrayRef<Type> types, int64_t grid,
                                  int64_t grain, int64_t scratch,
                                  int64_t traffic);

/// A constant in the module's read-only memory; equal ones are shared.
Value createGlobalConstant(ModuleOp module, OpBuilder &builder, Location loc,
                           MemRefType type, DenseElementsAttr values);

} // namespace mlir::fsdp

#endif // FSDP_PASSES_KERNELS_KERNELUTILS_H
