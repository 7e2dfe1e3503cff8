//===- AttentionTiles.h - Attention, a block per tile of rows ---*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Attention in float32. A block of 128 threads computes a tile of 16 rows:
// queries of the output and of their gradients, keys of the gradients of keys
// and values. It goes over the other side in tiles of 32 columns. Eight threads
// share a row, and each has four scores of a tile and every eighth feature of
// the row's sums. Features come into shared memory 64 at a time, so that heads
// may have any size. What is exponentiated is taken from the maximum so far
// (online softmax; Milakov and Gimelshein, 2018); gradients recompute the
// probabilities from the statistics (FlashAttention; Dao et al., 2022). Sums
// have a fixed order.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_PASSES_KERNELS_CUDA_ATTENTIONTILES_H
#define FSDP_PASSES_KERNELS_CUDA_ATTENTIONTILES_H

#include "fsdp/Dialect/FSDP/IR/FSDP.h"

#include "mlir/IR/Builders.h"

namespace mlir::fsdp {

/// Threads of each block, and the threads that share a row.
constexpr int64_t kAttentionThreads = 128, kRowThreads = 8;
constexpr int64_t kTileRows = kAttentionThreads / kRowThreads;
/// Columns of a tile, and scores of each thread.
constexpr int64_t kTileColumns = 32, kThreadScores = kTileColumns / kRowThreads;
/// Features in shared memory at a time.
constexpr int64_t kTileFeatures = 64;

/// Tensors and body of an attention, forward or backward.
struct AttentionParts {
  explicit AttentionParts(Operation *op);

  AttentionShapeAttr shape;
  /// q, k, v, out and, backward, dout, dq, dk, dv: views and types; a null type
  /// where the kernel does not hand it out.
  SmallVector<StridedAttr> views;
  SmallVector<RankedTensorType> types;
  RankedTensorType statsType;
  OperandRange captured;
  ArrayAttr capturedViews;
  Region *score, *gradient = nullptr;
  float scale, dqScale = 1, dkScale = 1;
  bool isCausal, isZeroMasked = false;
  /// Whether the forward pass hands out its statistics.
  bool hasStats = false;

  bool isBackward() const { return gradient != nullptr; }
  bool exists(unsigned tensor) const { return types[tensor] != nullptr; }
  /// Whether gradients of keys and values are summed over a batch dimension.
  bool isShared(unsigned dim) const;
};

enum AttentionTensor { kQ, kK, kV, kOut, kDout, kDq, kDk, kDv };

/// What one function computes.
enum class AttentionRows { Out, Dq, DkDv };

/// Blocks of the function that computes `rows`, and floats of shared memory of
/// each.
int64_t getAttentionGrid(const AttentionParts &parts, AttentionRows rows);
int64_t getAttentionShared(const AttentionParts &parts);

/// Emits at `builder`'s position. `arguments` are the tensors, statistics and
/// captured values in the order of fsdp_rt_attention, as flat memory from their
/// first element (captured: from the tensor's); `shared` (f32) lies in shared
/// memory.
void emitAttentionTiles(const AttentionParts &parts, AttentionRows rows,
                        OpBuilder &builder, Location loc, ValueRange arguments,
                        Value shared);

} // namespace mlir::fsdp

#endif // FSDP_PASSES_KERNELS_CUDA_ATTENTIONTILES_H
