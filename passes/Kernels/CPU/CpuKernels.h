//===- CpuKernels.h - Code of kernels for processors ------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_PASSES_KERNELS_CPU_CPUKERNELS_H
#define FSDP_PASSES_KERNELS_CPU_CPUKERNELS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::fsdp {

/// Scratch memory of at least `bytes` as an argument (never empty).
MemRefType getScratchType(MLIRContext *context, int64_t bytes);

/// Declares `<kernel>_cpu` behind the kernel and records it there for
/// processors.
func::FuncOp createCpuKernel(func::FuncOp kernel, OpBuilder &builder,
                             ArrayRef<Type> types, int64_t grid, int64_t grain,
                             int64_t scratch, int64_t traffic);

} // namespace mlir::fsdp

#endif // FSDP_PASSES_KERNELS_CPU_CPUKERNELS_H
