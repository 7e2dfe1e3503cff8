//===- ParallelLoops.h - Parallel loops over threads ------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_PASSES_KERNELS_CUDA_PARALLELLOOPS_H
#define FSDP_PASSES_KERNELS_CUDA_PARALLELLOOPS_H

#include "mlir/Dialect/SCF/IR/SCF.h"

#include <optional>

namespace mlir::fsdp {

/// Points of `loop` where its bounds are constant.
std::optional<int64_t> getPointCount(scf::ParallelOp loop);

/// The induction variables of point `number` of `loop`.
SmallVector<Value> createPointIndices(scf::ParallelOp loop, Value number,
                                      OpBuilder &builder);

/// Replaces `loop`, which reduces nothing, by points `first`, `first + step`,
/// ... of it, the last dimension fastest. Parallel loops inside run in order.
void runPoints(scf::ParallelOp loop, Value first, Value step);

/// Replaces `loop`, whose bounds are constant, by one iteration, that of point
/// `number`, where there is such a point.
void runPoint(scf::ParallelOp loop, Value number);

/// Lets every thread run all iterations, one after another, of each parallel
/// loop in `region` whose iterations have buffers of their own: threads that
/// ran different iterations would share them. To be called before those get a
/// place.
void runAllocatingLoopsInOrder(Region &region);

/// Makes the ops of `region` code that the `threads` threads of one block run:
/// all threads execute what is sequential, `thread` computes points `thread`,
/// `thread + threads`, ... of a parallel loop, and the first one stores
/// scalars. Barriers order what is written with what others read. Refuses loops
/// that reduce; expects none that allocates.
LogicalResult distribute(Region &region, Value thread, int64_t threads);

} // namespace mlir::fsdp

#endif // FSDP_PASSES_KERNELS_CUDA_PARALLELLOOPS_H
