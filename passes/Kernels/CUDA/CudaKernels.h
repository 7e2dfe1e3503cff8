//===- CudaKernels.h - Kernels' code for CUDA devices -----------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_PASSES_KERNELS_CUDA_CUDAKERNELS_H
#define FSDP_PASSES_KERNELS_CUDA_CUDAKERNELS_H

#include "fsdp/Dialect/FSDP/IR/FSDP.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"

namespace mlir::fsdp {

/// Blocks of a grid in x, and bytes of shared memory that a block has on every
/// card without being asked for more.
constexpr int64_t kMostBlocks = std::numeric_limits<int32_t>::max();
constexpr int64_t kMostShared = 48 * 1024;

/// Bytes of the widest access of a thread, which begins at a multiple of them:
/// an argument of a function that has such accesses says so.
constexpr int64_t kVectorBytes = 16;
constexpr llvm::StringLiteral kAlignmentName = "llvm.align";

/// Bytes that a buffer's place in the workspace is a multiple of.
constexpr int64_t kWorkspaceAlignment = 256;

/// `@cuda_kernels`, which holds all device code of a module; made where there
/// is none. Null, with an error, where something else has the name.
gpu::GPUModuleOp getCudaModule(ModuleOp module);

/// Memory spaces of a kernel's operands and of a block.
Attribute getGlobalSpace(MLIRContext *context);
Attribute getSharedSpace(MLIRContext *context);

/// The dynamic shared memory of a block, memref<?xi8>.
Value createDynamicShared(OpBuilder &builder, Location loc);

/// A kernel function `name` of `device` for blocks of `block` threads, with a
/// block, which returns. `slots` i64 of shared memory come after the arguments
/// if that is not 0.
gpu::GPUFuncOp createCudaFunction(gpu::GPUModuleOp device, Location loc,
                                  StringRef name, ArrayRef<Type> arguments,
                                  int64_t block, int64_t slots = 0);

/// Its launch, as an entry of #fsdp.cuda_code.
CudaKernelAttr getCudaLaunch(gpu::GPUFuncOp function, int64_t grid,
                             int64_t block, int64_t shared);

} // namespace mlir::fsdp

#endif // FSDP_PASSES_KERNELS_CUDA_CUDAKERNELS_H
