//===- KernelMemory.h - Where kernels' tensors lie --------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_PASSES_KERNELS_COMMON_KERNELMEMORY_H
#define FSDP_PASSES_KERNELS_COMMON_KERNELMEMORY_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IRMapping.h"

namespace mlir::fsdp {

/// Memory of `type`, a static tensor, as one dimension; bools take a byte.
MemRefType getFlatMemRef(Type type, Attribute space = {});

/// Maps each constant that `kernel` reads from memory (no splat) to a global of
/// the symbol table `table`, a module or a gpu.module; equal ones are shared.
void createConstants(func::FuncOp kernel, Operation *table, OpBuilder &builder,
                     IRMapping &memory, Attribute space = {});

} // namespace mlir::fsdp

#endif // FSDP_PASSES_KERNELS_COMMON_KERNELMEMORY_H
