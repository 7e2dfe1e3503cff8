//===- Attention.h - Attention in a traced step -----------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Finds softmax(f(q k^T)) v, and the ops that compute its gradients, by what
// they compute: no names, no shapes. Dropout and the like between the softmax
// and the values are factors of the probabilities. Reshapes, transposes,
// slices, casts, constant factors and repeated heads around the products become
// views.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_ANALYSIS_ATTENTION_ATTENTION_H
#define FSDP_ANALYSIS_ATTENTION_ATTENTION_H

#include "fsdp/Analysis/Attention/PointExpressions.h"

#include <memory>

namespace mlir::fsdp {

/// A tensor as an attention sees it; strides of the batch, rows and columns.
struct AttentionTensor {
  Value tensor;
  int64_t offset = 0;
  SmallVector<int64_t, 6> strides;

  bool operator==(const AttentionTensor &other) const {
    return tensor == other.tensor && offset == other.offset &&
           strides == other.strides;
  }
};

/// A gradient, and what else it is multiplied by.
struct AttentionGradient {
  AttentionTensor result;
  double scale = 1.0;
};

/// The op to make, and where.
struct AttentionForward {
  Operation *place = nullptr;
  AttentionTensor q, k, v, out;
  double scale = 1.0;
  bool causal = false, zeroMasked = false;
  /// Of the point expressions: what goes into the softmax, and the product.
  int score = -1, product = -1;
  /// Those that a probability is multiplied by.
  SmallVector<int> factors;
  /// Nodes of elements of tensors that any body reads, and where they lie.
  SmallVector<int> allCaptured;
  SmallVector<AttentionTensor> capturedTensors;
  /// Of them those that the score function and the factors read.
  SmallVector<int> captured;
};

struct AttentionBackward {
  Operation *place = nullptr;
  AttentionTensor dout;
  std::optional<AttentionGradient> dq, dk, dv;
  /// The gradient at the product, and the one behind the softmax.
  int gradient = -1, softmaxGradient = -1;
};

struct AttentionMatch {
  std::unique_ptr<PointExpressions> points;
  SmallVector<int64_t, 4> batch;
  int64_t queries = 1, keys = 1, head = 1, value = 1;
  AttentionForward forward;
  std::optional<AttentionBackward> backward;
};

/// A softmax between two products that is no attention we know.
struct AttentionRefusal {
  Operation *op;
  std::string reason;
};

struct AttentionMatches {
  std::vector<AttentionMatch> matches;
  SmallVector<AttentionRefusal> refusals;
};

/// All attentions of a step behind fsdp-normalize-compute, in its order. What
/// one of them replaces is dead once its results are used instead.
AttentionMatches findAttentions(Block &block);

} // namespace mlir::fsdp

#endif // FSDP_ANALYSIS_ATTENTION_ATTENTION_H
