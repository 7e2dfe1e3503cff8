//===- KernelUtils.h - Kernels and their implementations --------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_PASSES_KERNELS_COMMON_KERNELUTILS_H
#define FSDP_PASSES_KERNELS_COMMON_KERNELUTILS_H

#include "fsdp/Analysis/Kernels/Contraction.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"

namespace mlir::fsdp {

/// torch-mlir guards reciprocals with an assertion of this text, which is
/// dropped: PyTorch divides as IEEE says.
constexpr llvm::StringLiteral kReciprocalGuard =
    "unimplemented: tensor with zero element";

/// The functions that the module launches and has, each once, in order of first
/// launch.
SmallVector<func::FuncOp> getKernels(ModuleOp module);

/// Whether a kernel already has code for some target or is a matrix product.
bool hasImplementation(func::FuncOp kernel);

/// Whether a kernel has code for `target` or is a matrix product, which the
/// devices' libraries have.
bool hasCodeFor(func::FuncOp kernel, StringRef target);

/// The plan of a kernel whose only result is a contraction of its arguments;
/// null for any other. @plans are those of its body.
const ContractionPlan *getOnlyPlan(func::FuncOp kernel,
                                   const ContractionPlans &plans);

/// Bytes of all tensors that a kernel takes, each once: what its code must read
/// and write at least, where nothing better is known.
int64_t getArgumentBytes(func::FuncOp kernel);

/// The nested module of fsdp-isolate-kernels.
constexpr llvm::StringLiteral kFallbackModule = "fallback";

/// The function of that module for `kernel` and `target`.
std::string getFallbackName(func::FuncOp kernel, StringRef target);

} // namespace mlir::fsdp

#endif // FSDP_PASSES_KERNELS_COMMON_KERNELUTILS_H
