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
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Interfaces/FunctionInterfaces.h"

namespace mlir::fsdp {

/// Bytes that a buffer's place is a multiple of, within memory of a thread or a
/// block.
constexpr int64_t kBufferAlignment = 64;

/// The function for `kernel` and `target`; null, with an error, where there is
/// none.
func::FuncOp getBufferized(ModuleOp nested, func::FuncOp kernel,
                           StringRef target);

/// Gives arguments without elements that nothing reads one dimension: LLVM's
/// conversion takes no other type without elements. `func` has no results.
void flattenEmpty(FunctionOpInterface func);

/// Refuses ops that no later pass lowers, by name and location, and drops the
/// results, which are the last arguments.
LogicalResult prepareBufferized(func::FuncOp func);

/// The temporary buffers of `op`, and the bytes of one. Refuses those of
/// dynamic size and those that an iteration hands to the next.
SmallVector<memref::AllocOp> getBuffers(Operation *op);
FailureOr<int64_t> getBufferBytes(memref::AllocOp op);

/// Replaces `buffers` by what `createBuffer` makes for a type and a byte
/// offset, a multiple of `alignment`, among all of them; returns their bytes.
FailureOr<int64_t> placeBuffers(
    ArrayRef<memref::AllocOp> buffers, int64_t alignment,
    llvm::function_ref<Value(OpBuilder &, MemRefType, Value)> createBuffer);

/// Moves the constants of `nested` to the symbol table `table`, whose functions
/// read them.
void moveConstants(ModuleOp nested, Operation *table);

} // namespace mlir::fsdp

#endif // FSDP_PASSES_KERNELS_COMMON_BUFFERIZEDKERNELS_H
