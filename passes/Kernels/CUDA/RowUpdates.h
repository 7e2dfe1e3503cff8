//===- RowUpdates.h - Rows of a table that data names -----------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
//   parallel (j) { for t { table[row(t), j] = f(table[row(t), j], x(t, j)) } }
//
// as the gradient of an embedding, where row(t) is loaded: a thread per column
// waits for memory in each t. Rows are divided among blocks instead, by a hash
// of their indices: each block goes over all t in tiles, lists those whose rows
// are its own, in their order, and updates these. An element is still updated
// by one thread, in the order of t, so all bits are the same.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_PASSES_KERNELS_CUDA_ROWUPDATES_H
#define FSDP_PASSES_KERNELS_CUDA_ROWUPDATES_H

#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

#include <optional>

namespace mlir::fsdp {

struct RowUpdates {
  scf::ParallelOp columns;
  scf::ForOp loop;
  /// Of the table.
  memref::LoadOp old;
  memref::StoreOp store;
  /// The indices of the table, by their places, that are the row's.
  SmallVector<unsigned> rowPlaces;
  int64_t iterations = 0;
};

/// `columns` as such a loop; none where it is something else.
std::optional<RowUpdates> matchRowUpdates(scf::ParallelOp columns);

/// How many blocks share the rows of each block's columns, a power of two; none
/// where a thread per column waits less.
std::optional<int64_t> chooseRowOwners(const RowUpdates &updates);

/// Shared memory that a block needs, as i64.
int64_t getRowSlots(const RowUpdates &updates);

/// Blocks of kPointThreads threads.
int64_t getRowBlocks(const RowUpdates &updates, int64_t owners);

/// Replaces the loops in `function`, which has `getRowSlots` of shared memory.
void emitRowUpdates(const RowUpdates &updates, gpu::GPUFuncOp function,
                    int64_t owners);

} // namespace mlir::fsdp

#endif // FSDP_PASSES_KERNELS_CUDA_ROWUPDATES_H
