//===- PointExpressions.h - What is computed at a point ---------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A chain of elementwise ops, reshapes, transposes and reductions over rows,
// read backwards, is one scalar expression per point of (batch, query, key).
// Equal tensors read at the same point are one node, and so are equal ops on
// the same nodes, so that expressions can be compared by number.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_ANALYSIS_ATTENTION_POINTEXPRESSIONS_H
#define FSDP_ANALYSIS_ATTENTION_POINTEXPRESSIONS_H

#include "fsdp/Analysis/Kernels/IndexSpace.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

#include <unordered_map>
#include <vector>

namespace mlir::fsdp {

/// The atoms that each dimension of a tensor is walked by.
using DimAtoms = SmallVector<IndexSpace::AtomList, 4>;

struct PointNode {
  enum class Kind {
    /// An op of a linalg body.
    Op,
    Constant,
    /// A coordinate: the row-major index of `index`.
    Index,
    /// An element of a tensor that is not looked into.
    Captured,
    /// An element of a contraction's result, at a query and a key.
    Product,
    /// A reduction of `operands[0]` over all keys by `op`, from `constant`.
    RowReduce
  };
  Kind kind = Kind::Op;
  Operation *op = nullptr;
  SmallVector<int, 3> operands;
  /// Captured and Product.
  Value value;
  DimAtoms dims;
  IndexSpace::AtomList index;
  TypedAttr constant;
  /// Whether it depends on a product.
  bool hasProduct = false;
  /// Whether it depends on nothing but coordinates, constants and tensors of
  /// one element without dimensions.
  bool isCoordinate = false;
  /// Whether it depends on random words.
  bool isRandom = false;
  /// Ops below it, itself included; shared ones count each time.
  int size = 1;
};

class PointExpressions {
public:
  /// Points (batch, query, key); all atoms are of `space`.
  IndexSpace space;
  IndexSpace::AtomList batch, query, key;

  /// The element of `tensor` where its dimensions are at `dims`; -1 where the
  /// expression is too large.
  int resolve(Value tensor, const DimAtoms &dims);

  const PointNode &operator[](int i) const { return nodes[i]; }
  /// Without widening and narrowing of floats.
  int stripCasts(int node) const;
  /// The tensors that were looked into, with what walks them and their nodes.
  struct Known {
    Value tensor;
    DimAtoms dims;
    int node;
  };
  ArrayRef<Known> getKnown() const { return known; }

  /// Whether two lists walk the same points.
  bool equal(ArrayRef<IndexSpace::Atom> a, ArrayRef<IndexSpace::Atom> b) const {
    return space.resolve(a) == space.resolve(b);
  }
  bool contains(const DimAtoms &dims, ArrayRef<IndexSpace::Atom> part) const;

  /// Dimensions of what a reshape reads, and of what it makes; false where they
  /// do not fit.
  bool getSourceDims(Operation *reshape, const DimAtoms &dims,
                     DimAtoms &source);
  bool getResultDims(Operation *reshape, const DimAtoms &source,
                     DimAtoms &dims);

private:
  /// The least and the greatest value of an integer, where they are known.
  using Range = std::pair<int64_t, int64_t>;
  std::optional<Range> getRange(int node) const;
  /// What a comparison says at every point.
  std::optional<bool> getCondition(int node) const;

  /// The number of @node, or of one that computes the same.
  int add(PointNode node);
  bool computeSame(const PointNode &a, const PointNode &b) const;
  int addOp(Operation *op, SmallVector<int, 3> operands);
  int addLeaf(Value tensor, const DimAtoms &dims);
  int resolveNew(Value tensor, const DimAtoms &dims);
  int resolveElementwise(linalg::GenericOp op, OpResult result,
                         const DimAtoms &dims);
  int resolveExtract(tensor::ExtractOp extract, ArrayRef<int> indices);
  int resolveReduction(linalg::GenericOp op, OpResult result,
                       const DimAtoms &dims);
  using LoopAtoms = SmallVector<IndexSpace::AtomList>;
  bool getLoopAtoms(linalg::GenericOp op, OpResult result, const DimAtoms &dims,
                    LoopAtoms &loops) const;
  int resolveScalar(Value scalar, linalg::GenericOp op, const LoopAtoms &loops,
                    llvm::DenseMap<Value, int> &scalars);

  std::vector<PointNode> nodes;
  SmallVector<Known> known;
  llvm::DenseMap<Value, SmallVector<unsigned, 2>> knownOf;
  /// Numbers of constants, coordinates and ops, by a hash of what they are.
  std::unordered_map<size_t, SmallVector<int, 1>> nodesOf;
  int depth = 0;
};

} // namespace mlir::fsdp

#endif // FSDP_ANALYSIS_ATTENTION_POINTEXPRESSIONS_H
