//===- StridedLayout.cpp - A tensor as a view of another ------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Analysis/Kernels/StridedLayout.h"
#include "fsdp/Analysis/Kernels/ComputeOps.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/SmallBitVector.h"

using namespace mlir;
using namespace mlir::fsdp;

//===----------------------------------------------------------------------===//
// StridedLayout
//===----------------------------------------------------------------------===//

StridedLayout StridedLayout::getContiguous(ArrayRef<int64_t> shape) {
  StridedLayout layout;
  layout.dims.resize(shape.size());
  int64_t stride = 1;
  for (int64_t i = shape.size() - 1; i >= 0; --i) {
    if (shape[i] != 1)
      layout.dims[i].push_back({shape[i], stride});
    stride *= shape[i];
  }
  return layout;
}

/// Joins neighbours that lie in memory as one.
static void appendMerged(StridedLayout::Dim &dim, StridedDim piece) {
  if (piece.size == 1)
    return;
  if (!dim.empty() && dim.back().stride == piece.stride * piece.size)
    dim.back() = {dim.back().size * piece.size, piece.stride};
  else
    dim.push_back(piece);
}

StridedLayout::Dim StridedLayout::getFlattened() const {
  Dim all;
  for (const Dim &dim : dims)
    for (StridedDim piece : dim)
      appendMerged(all, piece);
  return all;
}

bool StridedLayout::isContiguous() const {
  Dim all = getFlattened();
  return offset == 0 &&
         (all.empty() || (all.size() == 1 && all.front().stride == 1));
}

StridedLayout
StridedLayout::collapse(ArrayRef<SmallVector<int64_t, 2>> groups) const {
  StridedLayout result;
  result.offset = offset;
  for (ArrayRef<int64_t> group : groups) {
    Dim &dim = result.dims.emplace_back();
    for (int64_t i : group)
      for (StridedDim piece : dims[i])
        appendMerged(dim, piece);
  }
  return result;
}

/// Takes `size` elements off the minor end of `pieces`.
static std::optional<StridedLayout::Dim> takeMinor(StridedLayout::Dim &pieces,
                                                   int64_t size) {
  StridedLayout::Dim taken;
  while (size != 1) {
    if (pieces.empty())
      return std::nullopt;
    StridedDim &last = pieces.back();
    if (size % last.size == 0) {
      size /= last.size;
      taken.insert(taken.begin(), last);
      pieces.pop_back();
    } else if (last.size % size == 0) {
      taken.insert(taken.begin(), {size, last.stride});
      last = {last.size / size, last.stride * size};
      size = 1;
    } else {
      return std::nullopt;
    }
  }
  return taken;
}

std::optional<StridedLayout>
StridedLayout::expand(ArrayRef<SmallVector<int64_t, 2>> groups,
                      ArrayRef<int64_t> shape) const {
  StridedLayout result;
  result.offset = offset;
  result.dims.resize(shape.size());
  for (auto [group, dim] : llvm::zip(groups, dims)) {
    Dim rest = dim;
    for (int64_t i : llvm::reverse(group)) {
      std::optional<Dim> taken = takeMinor(rest, shape[i]);
      if (!taken)
        return std::nullopt;
      result.dims[i] = *taken;
    }
  }
  return result;
}

std::optional<StridedLayout>
StridedLayout::slice(ArrayRef<int64_t> offsets, ArrayRef<int64_t> sizes,
                     ArrayRef<int64_t> strides) const {
  StridedLayout result;
  result.offset = offset;
  for (auto [i, dim] : llvm::enumerate(dims)) {
    int64_t whole = 1;
    for (StridedDim piece : dim)
      whole *= piece.size;
    if (offsets[i] == 0 && sizes[i] == whole) {
      result.dims.push_back(dim);
      continue;
    }
    if (dim.size() > 1)
      return std::nullopt;
    int64_t stride = dim.empty() ? 0 : dim.front().stride;
    result.offset += offsets[i] * stride;
    Dim &taken = result.dims.emplace_back();
    if (sizes[i] != 1)
      taken.push_back({sizes[i], stride * strides[i]});
  }
  return result;
}

StridedLayout StridedLayout::drop(const llvm::SmallBitVector &dropped) const {
  StridedLayout result;
  result.offset = offset;
  for (auto [i, dim] : llvm::enumerate(dims))
    if (!dropped.test(i))
      result.dims.push_back(dim);
  return result;
}

//===----------------------------------------------------------------------===//
// Views of values
//===----------------------------------------------------------------------===//

bool fsdp::isViewOp(Operation *op) {
  if (auto slice = dyn_cast<tensor::ExtractSliceOp>(op))
    return slice.getSourceType().hasStaticShape() &&
           llvm::none_of(slice.getStaticOffsets(), ShapedType::isDynamic) &&
           llvm::none_of(slice.getStaticSizes(), ShapedType::isDynamic) &&
           llvm::none_of(slice.getStaticStrides(), ShapedType::isDynamic);
  if (auto expand = dyn_cast<tensor::ExpandShapeOp>(op))
    return expand.getResultType().hasStaticShape();
  if (auto collapse = dyn_cast<tensor::CollapseShapeOp>(op))
    return collapse.getSrcType().hasStaticShape();
  return false;
}

bool fsdp::isReshape(Operation *op) {
  return isa_and_nonnull<tensor::ExpandShapeOp, tensor::CollapseShapeOp>(op);
}

Value fsdp::lookThroughReshapes(Value value) {
  while (isReshape(value.getDefiningOp()))
    value = value.getDefiningOp()->getOperand(0);
  return value;
}

/// The factor by which a body scales its first argument; nullopt where it does
/// something else.
static std::optional<double> getScale(Block *body) {
  Value in = body->getArgument(0), out = body->getTerminator()->getOperand(0);
  if (out == in && llvm::hasSingleElement(*body))
    return 1.0;
  Operation *op = out.getDefiningOp();
  if (!op || op->getBlock() != body || op->getNumOperands() != 2)
    return std::nullopt;
  unsigned position = op->getOperand(0) == in ? 0 : 1;
  FloatAttr factor;
  if (op->getOperand(position) != in ||
      !matchPattern(op->getOperand(1 - position), m_Constant(&factor)))
    return std::nullopt;
  // Constants may stand in the body; nothing else may.
  for (Operation &other : body->without_terminator())
    if (&other != op && !other.hasTrait<OpTrait::ConstantLike>())
      return std::nullopt;
  double value = factor.getValueAsDouble();
  if (isa<arith::MulFOp>(op))
    return value;
  if (isa<arith::DivFOp>(op) && position == 0)
    return 1.0 / value;
  return std::nullopt;
}

std::optional<Move> fsdp::getMove(Operation *op) {
  // What it reads and what it writes to. (Which is which takes longer to ask.)
  if (op->getNumOperands() != 2 || op->getNumResults() != 1)
    return std::nullopt;
  auto linalgOp = dyn_cast<linalg::LinalgOp>(op);
  if (!linalgOp || isa<linalg::FillOp>(op) || linalgOp.getNumDpsInputs() != 1 ||
      linalgOp.getNumParallelLoops() != linalgOp.getNumLoops())
    return std::nullopt;
  std::optional<double> scale = getScale(linalgOp.getBlock());
  AffineMap in =
      linalgOp.getMatchingIndexingMap(linalgOp.getDpsInputOperand(0));
  AffineMap out =
      linalgOp.getMatchingIndexingMap(linalgOp.getDpsInitOperand(0));
  if (!scale || !out.isPermutation() ||
      !in.isProjectedPermutation(/*allowZero=*/true))
    return std::nullopt;
  Move move;
  move.scale = *scale;
  for (AffineExpr expr : out.getResults()) {
    std::optional<unsigned> position = in.getResultPosition(expr);
    move.dims.push_back(position ? int64_t(*position) : -1);
  }
  return move;
}

/// The layout of `op`'s result, given its operand's.
static std::optional<StridedLayout> applyView(Operation *op,
                                              const StridedLayout &layout) {
  if (auto collapse = dyn_cast<tensor::CollapseShapeOp>(op))
    return layout.collapse(collapse.getReassociationIndices());
  if (auto expand = dyn_cast<tensor::ExpandShapeOp>(op))
    return layout.expand(expand.getReassociationIndices(),
                         expand.getResultType().getShape());
  if (auto slice = dyn_cast<tensor::ExtractSliceOp>(op)) {
    auto whole = layout.slice(slice.getStaticOffsets(), slice.getStaticSizes(),
                              slice.getStaticStrides());
    if (whole)
      whole = whole->drop(slice.getDroppedDims());
    return whole;
  }
  std::optional<Move> move = getMove(op);
  if (!move)
    return std::nullopt;
  StridedLayout result;
  result.offset = layout.offset;
  auto shape = cast<RankedTensorType>(op->getResult(0).getType()).getShape();
  for (auto [dim, size] : llvm::zip(move->dims, shape)) {
    StridedLayout::Dim &pieces = result.dims.emplace_back();
    if (dim >= 0)
      pieces = layout.dims[dim];
    else if (size != 1)
      pieces.push_back({size, 0});
  }
  return result;
}

/// Applies the ops that lead from `source` down to the value, nearest first in
/// `chain`; nullopt where strides cannot tell.
static std::optional<ViewedValue> applyChain(Value source,
                                             ArrayRef<Operation *> chain) {
  ViewedValue viewed{source,
                     StridedLayout::getContiguous(
                         cast<RankedTensorType>(source.getType()).getShape())};
  for (Operation *op : llvm::reverse(chain)) {
    auto next = applyView(op, viewed.layout);
    if (!next)
      return std::nullopt;
    viewed.layout = *next;
    if (std::optional<Move> move = getMove(op))
      viewed.scale *= move->scale;
  }
  return viewed;
}

ViewedValue fsdp::lookThroughViews(Value value) {
  SmallVector<Operation *> chain;
  Value source = value;
  while (Operation *op = source.getDefiningOp()) {
    if (!isViewOp(op))
      break;
    chain.push_back(op);
    source = op->getOperand(0);
  }
  for (; !chain.empty(); chain.pop_back()) {
    if (auto viewed = applyChain(source, chain))
      return *viewed;
    source = chain.back()->getResult(0);
  }
  return *applyChain(value, {});
}

SmallVector<ViewedValue>
fsdp::lookThroughMoves(Value value, const llvm::DenseSet<Value> &hidden) {
  SmallVector<ViewedValue> found;
  SmallVector<Operation *> chain;
  for (Value source = value;;) {
    Operation *op = source.getDefiningOp();
    bool isInMemory =
        !op || (!isViewOp(op) && getComputeKind(op) != ComputeKind::Constant);
    if (isInMemory && !hidden.contains(source))
      if (auto viewed = applyChain(source, chain))
        found.push_back(*viewed);
    if (!op || (!isViewOp(op) && !getMove(op)))
      break;
    chain.push_back(op);
    source = op->getOperand(0);
  }
  std::reverse(found.begin(), found.end());
  return found;
}
