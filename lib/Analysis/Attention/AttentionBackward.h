//===- AttentionBackward.h - The backward pass of an attention --*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_LIB_ANALYSIS_ATTENTION_ATTENTIONBACKWARD_H
#define FSDP_LIB_ANALYSIS_ATTENTION_ATTENTIONBACKWARD_H

#include "AttentionOperands.h"
#include "SoftmaxPatterns.h"

namespace mlir::fsdp {

/// Ops from an exponential to the product that reads its softmax, and from the
/// probabilities to the products of the backward pass: more is something else.
constexpr unsigned kMaxReach = 64;

/// What the forward pass of an attention says about its backward pass.
struct ForwardProducts {
  /// The operand of the product with the values.
  OpOperand *probabilities;
  /// The points of the probabilities, and what they are multiplied by there.
  int probability;
  ArrayRef<int> factors;
  /// Features of queries and keys, and of values.
  IndexSpace::AtomList head, value;
};

/// The products of a backward pass, and what they read.
struct BackwardPass {
  /// As the product of queries' and keys' gradients reads it, and as that of
  /// the values' gradient does.
  WalkedTensor dout, doutOfValues;
  WalkedTensor keysOfGradient, queriesOfGradient, valuesOfGradient;
  std::optional<WalkedTensor> dq, dk, dv;
  linalg::LinalgOp dqOp, dkOp, dvOp;
  /// Makes the gradient of the probabilities.
  linalg::LinalgOp dpOp;
  /// The points of the gradient at the scores, and the one after the softmax.
  int gradient = -1;
  SoftmaxGradientPattern softmaxGradient{-1, -1};

  /// All that it reads or makes.
  SmallVector<WalkedTensor *> getTensors();
};

/// The backward pass of the attention with @forward, by which products in
/// @block read what is computed of the probabilities; none where nothing does.
/// @checkBody(root, stop): whether everything below `root` but `stop` can be
/// part of the op. On failure, @why says what is not understood.
FailureOr<std::optional<BackwardPass>> matchBackwardPass(
    PointExpressions &points, Block &block, const ForwardProducts &forward,
    llvm::function_ref<bool(int, int)> checkBody, std::string &why);

} // namespace mlir::fsdp

#endif // FSDP_LIB_ANALYSIS_ATTENTION_ATTENTIONBACKWARD_H
