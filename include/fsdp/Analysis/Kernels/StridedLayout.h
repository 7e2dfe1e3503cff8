//===- StridedLayout.h - A tensor as a view of another ----------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Reshapes, slices, transposes and broadcasts move no data: what they make is
// the source, read with other strides. A layout is an offset and, per
// dimension, a list of strided pieces (major to minor): collapsing a transposed
// tensor needs more than one.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_ANALYSIS_KERNELS_STRIDEDLAYOUT_H
#define FSDP_ANALYSIS_KERNELS_STRIDEDLAYOUT_H

#include "fsdp/Analysis/Kernels/IndexSpace.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Operation.h"
#include "mlir/IR/Value.h"
#include "llvm/ADT/DenseSet.h"

#include <optional>

namespace mlir::fsdp {

struct StridedLayout {
  using Dim = SmallVector<StridedDim, 2>;

  /// In elements from the source's first.
  int64_t offset = 0;
  SmallVector<Dim, 4> dims;

  /// A row-major tensor of its own.
  static StridedLayout getContiguous(ArrayRef<int64_t> shape);

  /// All pieces of all dimensions, major to minor.
  Dim getFlattened() const;
  /// Elements [0, n) in order, without gaps.
  bool isContiguous() const;

  // Each gives the layout of the result; nullopt where strides cannot tell.
  StridedLayout collapse(ArrayRef<SmallVector<int64_t, 2>> groups) const;
  std::optional<StridedLayout> expand(ArrayRef<SmallVector<int64_t, 2>> groups,
                                      ArrayRef<int64_t> shape) const;
  std::optional<StridedLayout> slice(ArrayRef<int64_t> offsets,
                                     ArrayRef<int64_t> sizes,
                                     ArrayRef<int64_t> strides) const;
  /// Drops dimensions (all of size 1).
  StridedLayout drop(const llvm::SmallBitVector &dropped) const;
};

/// Ops that only reshape or slice: their result is memory of their operand.
bool isViewOp(Operation *op);

/// Whether @op, which may be null, only reshapes: its result has the elements
/// of its operand, in the same row-major order.
bool isReshape(Operation *op);

/// The value that @value is a reshape of, through any number of reshapes.
Value lookThroughReshapes(Value value);

/// A linalg op that only transposes or broadcasts one tensor, and multiplies it
/// by a constant.
struct Move {
  /// The source's dimension for each dimension of the result; -1 where it
  /// broadcasts.
  SmallVector<int64_t> dims;
  double scale = 1.0;

  bool isPermutation() const { return !llvm::is_contained(dims, -1); }
};
std::optional<Move> getMove(Operation *op);

/// A value seen through the views (and moves) that made it.
struct ViewedValue {
  /// What they look at.
  Value source;
  StridedLayout layout;
  double scale = 1.0;
};

/// Follows view ops up as far as strides can tell.
ViewedValue lookThroughViews(Value value);

/// The same through views and moves, once for every value on the way that is
/// not itself the result of a view; farthest source first. Sources that
/// `hidden` holds, and constants, are left out: they will not be in memory.
SmallVector<ViewedValue> lookThroughMoves(Value value,
                                          const llvm::DenseSet<Value> &hidden);

} // namespace mlir::fsdp

#endif // FSDP_ANALYSIS_KERNELS_STRIDEDLAYOUT_H
