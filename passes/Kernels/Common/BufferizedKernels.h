//===- BufferizedKernels.h - Functions that become kernels' code -*- C++
//-*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What fsdp-bufferize-kernels and upstream passes left in the nested module of
// fsdp-isolate-kernels.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_PASSES_KERNELS_COMMON_BUFFERIZEDKERNELS_H
#define FSDP_PASSES_KERNELS_COMMON_BUFFERIZEDKERNELS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"

namespace mlir::fsdp {

/// The function for `kernel` and `target`; null, with an error, where there is
/// none.
func::FuncOp getBufferized(ModuleOp nested, func::FuncOp kernel,
                           StringRef target);

/// Refuses ops that no later pass lowers, by name and location, and drops the
/// results, which are the last arguments.
LogicalResult prepareBufferized(func::FuncOp func);

/// Replaces temporary buffers by what `createBuffer` makes for a type and a
/// byte offset (64-byte aligned) among all of them; returns their bytes.
/// Refuses those of dynamic size and those that an iteration hands to the next.
FailureOr<int64_t> placeBuffers(
    func::FuncOp func,
    llvm::function_ref<Value(OpBuilder &, MemRefType, Value)> createBuffer);

/// Moves the constants of `nested` to the symbol table `table`, whose functions
/// read them.
void moveConstants(ModuleOp nested, Operation *table);

} // namespace mlir::fsdp

#endif // FSDP_PASSES_KERNELS_COMMON_BUFFERIZEDKERNELS_H
