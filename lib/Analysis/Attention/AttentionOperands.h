//===- AttentionOperands.h - Tensors around an attention --------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_LIB_ANALYSIS_ATTENTION_ATTENTIONOPERANDS_H
#define FSDP_LIB_ANALYSIS_ATTENTION_ATTENTIONOPERANDS_H

#include "fsdp/Analysis/Attention/PointExpressions.h"
#include "fsdp/Analysis/Kernels/StridedLayout.h"

namespace mlir::fsdp {

/// A tensor in memory and how points walk over it; strides follow when all of
/// an attention's tensors are known, since they split each other's dimensions.
struct WalkedTensor {
  Value tensor;
  DimAtoms dims;
  StridedLayout layout;
  double scale = 1.0;
};

/// The farthest tensor that `value` is a view of, through reshapes, transposes,
/// broadcasts, constant factors, widening and slices.
WalkedTensor walkBack(PointExpressions &points, Value value, DimAtoms dims);

/// What walkForward goes through besides reshapes, transposes and narrowing.
enum class Through {
  Nothing,
  Factors, // constant ones
  Sums     // those, and sums over parts of the batch
};

/// What a product's result becomes: the last tensor after it that is a view of
/// it. Only through values that nothing else reads. What a sum widens before it
/// adds is one with the sum: the elements are added in the wider type, without
/// the rounding in between.
WalkedTensor walkForward(PointExpressions &points, Value value, DimAtoms dims,
                         Through through);

/// A product that makes a gradient, before what becomes of it.
struct GradientProduct {
  Value result;
  DimAtoms dims;
  double scale = 1.0;
};

WalkedTensor walkGradient(PointExpressions &points,
                          const GradientProduct &product, Through through);

/// The gradients of keys and values that are. They are added over the same
/// parts of the batch; where the trace does otherwise, both sums stay apart.
std::pair<std::optional<WalkedTensor>, std::optional<WalkedTensor>>
walkKeysAndValues(PointExpressions &points,
                  const std::optional<GradientProduct> &keys,
                  const std::optional<GradientProduct> &values);

/// A product of matrices by the atoms that walk over it.
struct WalkedProduct {
  linalg::LinalgOp op;
  /// Per loop.
  SmallVector<IndexSpace::AtomList> loops;
  DimAtoms getDims(OpOperand *operand) const;
  DimAtoms getResultDims() const;
  /// The loop that it sums over.
  unsigned reduced = 0;
  /// Loops of one operand only: row of the first, column of the second.
  int rows = -1, columns = -1;
};

/// The loops of a contraction that is one product per index of its batch, and
/// begins at zero; nothing where it is more than that. Atoms are left empty.
std::optional<WalkedProduct> getProductLoops(Operation *op);

/// Completes `product` where operand `known` is walked by `dims`, and the
/// result's other dimensions by new atoms.
bool walkOperand(PointExpressions &points, WalkedProduct &product,
                 OpOperand *known, const DimAtoms &dims);

/// Makes borders of atoms those of the layout.
bool splitAtLayout(PointExpressions &points, const WalkedTensor &walked);

/// The stride of each resolved atom of `atoms`; 0 where the tensor is not
/// walked by it.
SmallVector<int64_t> getStrides(const PointExpressions &points,
                                const WalkedTensor &walked,
                                ArrayRef<IndexSpace::Atom> atoms);

} // namespace mlir::fsdp

#endif // FSDP_LIB_ANALYSIS_ATTENTION_ATTENTIONOPERANDS_H
