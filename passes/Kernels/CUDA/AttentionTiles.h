//===- AttentionTiles.h - Attention, a block per tile of rows ---*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A block computes a tile of rows: queries of the output and of their
// gradients, keys of the gradients of keys and values. It goes over the other
// side, the columns, in tiles. Features come into shared memory in chunks, so
// that heads may have any size. What is exponentiated is taken from the maximum
// so far (online softmax; Milakov and Gimelshein, 2018); gradients recompute
// the probabilities from the statistics (FlashAttention; Dao et al., 2022).
// Sums have a fixed order.
//
// Products of bf16 and f16 are computed by tensor cores
// (AttentionMatrixEmitter.h), those of float32 by scalar instructions
// (AttentionTileEmitter.h).
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_PASSES_KERNELS_CUDA_ATTENTIONTILES_H
#define FSDP_PASSES_KERNELS_CUDA_ATTENTIONTILES_H

#include "fsdp/Dialect/FSDP/IR/FSDP.h"
#include "fsdp/Passes/OptionTypes.h"

#include "mlir/IR/Builders.h"

namespace mlir::fsdp {

/// Tensors and body of an attention, forward or backward.
struct AttentionParts {
  AttentionParts(Operation *op, MathMode math);

  AttentionShapeAttr shape;
  /// q, k, v, out and, backward, dout, dq, dk, dv: views and types; a null type
  /// where the kernel does not hand it out.
  SmallVector<StridedAttr> views;
  SmallVector<RankedTensorType> types;
  RankedTensorType statsType;
  OperandRange captured;
  ArrayAttr capturedViews;
  Region *score, *factor, *gradient = nullptr;
  float scale, dqScale = 1, dkScale = 1;
  bool isCausal, isZeroMasked = false;
  /// Whether the forward pass hands out its statistics.
  bool hasStats = false;
  /// Whether scores are scaled and, at most, masked behind the query.
  bool isPlain = false;
  /// Whether exponentials are a device's instruction: all results have 16 bits.
  bool isFast = false;

  /// fsdp.tuning of the kernel; null: none.
  DictionaryAttr tuning;

  bool isBackward() const { return gradient != nullptr; }
  bool hasFactor() const { return !factor->empty(); }
  bool exists(unsigned tensor) const { return types[tensor] != nullptr; }
  /// Rows of the batch.
  int64_t getRowCount() const { return statsType.getNumElements() / 2; }
  /// Numbers a row that the function for dq leaves in the workspace for that of
  /// dk and dv, AttentionRowValue; 0: that computes them itself.
  int64_t getRowValues() const;
  /// Whether gradients of keys and values are summed over a batch dimension.
  bool isShared(unsigned dim) const;

private:
  /// Whether tensor cores multiply, and those of `results` that there are have
  /// elements of 16 bits.
  bool areNarrow(ArrayRef<unsigned> results) const;
};

enum AttentionTensor { kQ, kK, kV, kOut, kDout, kDq, kDk, kDv };

/// What backward needs of a row: the sum of dout * out, and, where scores are
/// plain and exponentials fast, the negated logarithm of base 2 of the sum of
/// its scores' exponentials.
enum AttentionRowValue { kDelta, kLogarithm };

/// What one function computes.
enum class AttentionRows { Out, Dq, DkDv };

/// Blocks of the function that computes `rows` if each has so many of them.
int64_t countRowTiles(const AttentionParts &parts, AttentionRows rows,
                      int64_t tileRows);

/// How a function is launched.
struct AttentionLaunch {
  int64_t grid, threads, sharedBytes;
  bool usesTensorCores;
};
AttentionLaunch getAttentionLaunch(const AttentionParts &parts,
                                   AttentionRows rows);

/// Emits at `builder`'s position. `arguments` are the tensors, statistics and
/// captured values in the order of fsdp_rt_attention, as flat memory from their
/// first element (captured: from the tensor's), and the workspace, if there are
/// row values; `shared` (memref<?xi8>) lies in shared memory.
void emitAttentionTiles(const AttentionParts &parts, AttentionRows rows,
                        OpBuilder &builder, Location loc, ValueRange arguments,
                        Value shared);

} // namespace mlir::fsdp

#endif // FSDP_PASSES_KERNELS_CUDA_ATTENTIONTILES_H
