//===- LaunchStages.h - What devices run one after another ------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A grid has no barrier: what must come after all of its threads is another
// function. So a bufferized function is cut into stages, which are launched one
// after another and share nothing but memory.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_PASSES_KERNELS_CUDA_LAUNCHSTAGES_H
#define FSDP_PASSES_KERNELS_CUDA_LAUNCHSTAGES_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

namespace mlir::fsdp {

/// Threads of a block of a grid, with a point each.
constexpr int64_t kPointThreads = 128;

struct LaunchStage {
  /// Ops of the function's block, in their order.
  SmallVector<Operation *> ops;
  /// The only one, whose points threads of a grid run; null: one block runs the
  /// ops.
  scf::ParallelOp grid;
};

/// The other ops of their block whose results `ops` use, in their order. Of a
/// stage they are buffers, and what may be computed again in each stage.
SmallVector<Operation *> getNeeded(ArrayRef<Operation *> ops);

/// The stages of `body`, but for loops without a point. A stage uses no result
/// of another one's ops.
SmallVector<LaunchStage> cutIntoStages(func::FuncOp body);

/// All of `stages`, on one block.
LaunchStage joinStages(ArrayRef<LaunchStage> stages);

/// Those of `buffers` that no block's own memory can hold: several stages or
/// the blocks of a grid share them, or `blockBytes` are not enough for them
/// beside those before. Refuses buffers without a size.
FailureOr<SmallVector<memref::AllocOp>>
getSharedBuffers(ArrayRef<memref::AllocOp> buffers,
                 ArrayRef<LaunchStage> stages, int64_t blockBytes);

} // namespace mlir::fsdp

#endif // FSDP_PASSES_KERNELS_CUDA_LAUNCHSTAGES_H
