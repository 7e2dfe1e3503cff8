//===- AttentionRows.h - Attention, a block per row -------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Plain attention in float32: a block computes a row of the output (a query) or
// of the gradients of keys and values (a key). Its threads compute a score
// each, of as many keys (queries) as there are threads; then each thread adds
// up features of its own over these. What is exponentiated is taken from the
// maximum so far (online softmax; Milakov and Gimelshein, 2018); gradients
// recompute the probabilities from the statistics (FlashAttention; Dao et al.,
// 2022). Sums have a fixed order.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_PASSES_KERNELS_CUDA_ATTENTIONROWS_H
#define FSDP_PASSES_KERNELS_CUDA_ATTENTIONROWS_H

#include "fsdp/Dialect/FSDP/IR/FSDP.h"

#include "mlir/IR/Builders.h"

namespace mlir::fsdp {

/// Threads of each block.
constexpr int64_t kAttentionThreads = 128;

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

/// Blocks of the function that computes `rows`.
int64_t getAttentionGrid(const AttentionParts &parts, AttentionRows rows);

/// Floats of shared memory and slots (reduceInBlock) of a block.
int64_t getAttentionShared(const AttentionParts &parts, AttentionRows rows);
constexpr int64_t kAttentionReductions = 2;

/// Emits at `builder`'s position. `arguments` are the tensors, statistics and
/// captured values in the order of fsdp_rt_attention, as flat memory from their
/// first element (captured: from the tensor's); `slots` and `shared` (f32) lie
/// in shared memory.
void emitAttentionRows(const AttentionParts &parts, AttentionRows rows,
                       OpBuilder &builder, Location loc, ValueRange arguments,
                       Value slots, Value shared);

} // namespace mlir::fsdp

#endif // FSDP_PASSES_KERNELS_CUDA_ATTENTIONROWS_H
