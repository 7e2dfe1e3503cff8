//===- AttentionTileEmitter.h - Attention in float32 ------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Attention in float32. A block of 128 threads computes a tile of 16 rows and
// goes over the columns in tiles of 32. Eight threads share a row, and each has
// four scores of a tile and every eighth feature of the row's sums. Features
// come into shared memory 64 at a time.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_PASSES_KERNELS_CUDA_ATTENTIONTILEEMITTER_H
#define FSDP_PASSES_KERNELS_CUDA_ATTENTIONTILEEMITTER_H

#include "AttentionBlockEmitter.h"

namespace mlir::fsdp {

/// Grid, threads and bytes of shared memory of the function for `rows`.
AttentionLaunch getTileLaunch(const AttentionParts &parts, AttentionRows rows);

class AttentionTileEmitter : AttentionBlockEmitter {
public:
  /// `shared` (memref<?xi8>) lies in shared memory.
  AttentionTileEmitter(const AttentionParts &parts, OpBuilder &builder,
                       Location loc, ValueRange arguments, Value shared);

  void emitOut();
  void emitDq();
  void emitDkDv();

private:
  /// A tensor's part of a tile: where it lies in shared memory, and how many
  /// features the tensor has.
  struct Part {
    unsigned tensor;
    int64_t at, features;
  };

  void beginBlock(AttentionRows rows);

  // Memory.
  Value loadShared(int64_t at, Value i);
  void storeShared(int64_t at, Value i, Value value);
  /// Element (row, column) of a tile whose rows have `width` floats and one
  /// more, so that neighbouring rows lie in different banks.
  Value at(Value row, int64_t width, Value column);

  // Tiles. All threads of the block come to each.
  /// A loop over the tiles of columns, of which `body` gets the first.
  Values emitTiles(ValueRange init,
                   llvm::function_ref<Values(Value, ValueRange)> body);
  void loadTile(const Part &part, bool isOfRows, Value firstColumn,
                int64_t firstFeature);
  /// The thread's scores of rows times columns.
  Values multiply(const Part &rows, const Part &columns, Value firstColumn);
  /// Adds weights times columns to the thread's features of its row.
  Values accumulate(int64_t weights, const Part &columns, Value firstColumn,
                    bool isLoaded, ValueRange sums);
  /// Calls `body` for each feature of the thread's row that exists.
  void emitFeatures(int64_t features,
                    llvm::function_ref<void(int64_t, Value)> body);
  int64_t countFeatures(int64_t features) const;
  Value getThreadColumn(int64_t score);
  /// `value` if the column of the thread's score exists, else `otherwise`.
  Value selectColumn(Value firstColumn, int64_t score, Value value,
                     Value otherwise);
  bool isWhole(const Part &part) const;

  /// sum of dout * out over the features of a query, by `threads` neighbours,
  /// of which the thread is number `which`.
  Value emitDelta(const Point &query, Value which, int64_t threads);

  Value shared;
  /// The thread's row in the tile and its number among those that share it.
  Value row, lane;
  /// Shared memory: parts of rows and columns, weights and numbers of columns.
  Part q, k, v, dout;
  int64_t atWeights = 0, atGradients = 0, atDeltas = 0;
  /// Columns from the beginning of the tile that emitTiles() is at to the end
  /// of its stretch.
  Value columnsLeft;
};

} // namespace mlir::fsdp

#endif // FSDP_PASSES_KERNELS_CUDA_ATTENTIONTILEEMITTER_H
