//===- PointExpressions.cpp - What is computed at a point -----------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Analysis/PointExpressions.h"
#include "fsdp/Analysis/ComputeOps.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace mlir::fsdp;

/// Beyond these an expression is no score function.
constexpr int kMaxNodes = 2048, kMaxDepth = 48;
/// What is computed at every point rather than read: so many ops, and none that
/// costs as much as an exponential.
constexpr int kMaxRecomputed = 24, kMaxBodyCost = 16;

bool PointExpressions::contains(const DimAtoms &dims,
                                ArrayRef<IndexSpace::Atom> part) const {
  IndexSpace::AtomList all;
  for (const IndexSpace::AtomList &dim : dims)
    all.append(space.resolve(dim));
  return llvm::all_of(space.resolve(part), [&](IndexSpace::Atom atom) {
    return llvm::is_contained(all, atom);
  });
}

int PointExpressions::stripCasts(int node) const {
  while (node >= 0 && nodes[node].kind == PointNode::Kind::Op &&
         isa<arith::ExtFOp, arith::TruncFOp>(nodes[node].op))
    node = nodes[node].operands[0];
  return node;
}

//===----------------------------------------------------------------------===//
// Reshapes
//===----------------------------------------------------------------------===//

/// The groups of the longer shape that make the dimensions of the shorter one.
static SmallVector<ReassociationIndices> getGroups(Operation *reshape) {
  if (auto expand = dyn_cast<tensor::ExpandShapeOp>(reshape))
    return expand.getReassociationIndices();
  return cast<tensor::CollapseShapeOp>(reshape).getReassociationIndices();
}

/// From the short shape to the long one.
static bool splitDims(IndexSpace &space, ArrayRef<ReassociationIndices> groups,
                      RankedTensorType type, const DimAtoms &dims,
                      DimAtoms &result) {
  result.assign(type.getRank(), {});
  if (groups.size() != dims.size())
    return false;
  for (auto [group, list] : llvm::zip(groups, dims)) {
    IndexSpace::AtomList whole;
    for (int64_t dim : group) {
      result[dim] = space.create(type.getDimSize(dim));
      whole.append(result[dim]);
    }
    IndexSpace trial = space;
    if (!trial.unify(whole, list))
      return false;
    space = std::move(trial);
  }
  return true;
}

/// From the long shape to the short one.
static bool joinDims(ArrayRef<ReassociationIndices> groups,
                     const DimAtoms &dims, DimAtoms &result) {
  result.clear();
  for (const ReassociationIndices &group : groups) {
    IndexSpace::AtomList whole;
    for (int64_t dim : group)
      whole.append(dims[dim]);
    result.push_back(whole);
  }
  return true;
}

bool PointExpressions::getSourceDims(Operation *reshape, const DimAtoms &dims,
                                     DimAtoms &source) {
  auto type = cast<RankedTensorType>(reshape->getOperand(0).getType());
  if (isa<tensor::ExpandShapeOp>(reshape))
    return joinDims(getGroups(reshape), dims, source);
  return splitDims(space, getGroups(reshape), type, dims, source);
}

bool PointExpressions::getResultDims(Operation *reshape, const DimAtoms &source,
                                     DimAtoms &dims) {
  auto type = cast<RankedTensorType>(reshape->getResult(0).getType());
  if (isa<tensor::CollapseShapeOp>(reshape))
    return joinDims(getGroups(reshape), source, dims);
  return splitDims(space, getGroups(reshape), type, source, dims);
}

//===----------------------------------------------------------------------===//
// Nodes
//===----------------------------------------------------------------------===//

int PointExpressions::add(PointNode node) {
  for (int operand : node.operands) {
    node.hasProduct |= nodes[operand].hasProduct;
    node.size += nodes[operand].size;
  }
  node.size = std::min(node.size, kMaxNodes);
  if (node.kind == PointNode::Kind::Constant ||
      node.kind == PointNode::Kind::Index)
    node.isCoordinate = true;
  else if (node.kind == PointNode::Kind::Op)
    node.isCoordinate = llvm::all_of(
        node.operands, [&](int i) { return nodes[i].isCoordinate; });
  nodes.push_back(std::move(node));
  return nodes.size() - 1;
}

int PointExpressions::addLeaf(Value tensor, const DimAtoms &dims) {
  PointNode node;
  node.kind = PointNode::Kind::Captured;
  node.value = tensor;
  node.dims = dims;
  Operation *def = tensor.getDefiningOp();
  if (def && getComputeKind(def) == ComputeKind::Contraction &&
      contains(dims, query) && contains(dims, key)) {
    node.kind = PointNode::Kind::Product;
    node.hasProduct = true;
  }
  return add(std::move(node));
}

int PointExpressions::resolve(Value tensor, const DimAtoms &dims) {
  for (unsigned i : knownOf.lookup(tensor))
    if (llvm::all_of(llvm::zip(known[i].dims, dims), [&](auto pair) {
          return equal(std::get<0>(pair), std::get<1>(pair));
        }))
      return known[i].node;
  auto type = cast<RankedTensorType>(tensor.getType());
  for (auto [size, list] : llvm::zip(type.getShape(), dims))
    if (space.getTotalSize(space.resolve(list)) != size)
      return -1;
  if (nodes.size() > kMaxNodes || depth > kMaxDepth)
    return -1;
  ++depth;
  int node = resolveNew(tensor, dims);
  --depth;
  knownOf[tensor].push_back(known.size());
  known.push_back({tensor, dims, node});
  return node;
}

int PointExpressions::resolveNew(Value tensor, const DimAtoms &dims) {
  if (TypedAttr splat = getSplatConstant(tensor)) {
    PointNode node;
    node.kind = PointNode::Kind::Constant;
    node.constant = splat;
    return add(std::move(node));
  }
  Operation *def = tensor.getDefiningOp();
  if (isa_and_nonnull<tensor::ExpandShapeOp, tensor::CollapseShapeOp>(def)) {
    DimAtoms source;
    if (getSourceDims(def, dims, source))
      return resolve(def->getOperand(0), source);
  }
  if (auto op = dyn_cast_or_null<linalg::GenericOp>(def)) {
    ComputeKind kind = getComputeKind(op);
    auto result = cast<OpResult>(tensor);
    if (kind == ComputeKind::Elementwise)
      return resolveElementwise(op, result, dims);
    if (kind == ComputeKind::Reduction)
      return resolveReduction(op, result, dims);
  }
  return addLeaf(tensor, dims);
}

/// The atoms of each loop, where the result is at `dims`; loops that the result
/// does not tell stay empty.
bool PointExpressions::getLoopAtoms(linalg::GenericOp op, OpResult result,
                                    const DimAtoms &dims,
                                    LoopAtoms &loops) const {
  AffineMap map = op.getIndexingMapMatchingResult(result);
  loops.assign(op.getNumLoops(), {});
  for (auto [expr, list] : llvm::zip(map.getResults(), dims))
    if (auto dim = dyn_cast<AffineDimExpr>(expr))
      loops[dim.getPosition()] = list;
  return true;
}

int PointExpressions::resolveScalar(Value scalar, linalg::GenericOp op,
                                    const LoopAtoms &loops,
                                    llvm::DenseMap<Value, int> &scalars) {
  if (auto it = scalars.find(scalar); it != scalars.end())
    return it->second;
  int node = -1;
  Operation *def = scalar.getDefiningOp();
  if (auto arg = dyn_cast<BlockArgument>(scalar);
      arg && arg.getOwner() == op.getBody()) {
    OpOperand *operand = op.getMatchingOpOperand(arg);
    AffineMap map = op.getMatchingIndexingMap(operand);
    DimAtoms dims;
    for (AffineExpr expr : map.getResults()) {
      auto dim = dyn_cast<AffineDimExpr>(expr);
      dims.push_back(dim ? loops[dim.getPosition()] : IndexSpace::AtomList());
    }
    node = resolve(operand->get(), dims);
  } else if (TypedAttr constant; matchPattern(scalar, m_Constant(&constant))) {
    PointNode leaf;
    leaf.kind = PointNode::Kind::Constant;
    leaf.constant = constant;
    node = add(std::move(leaf));
  } else if (auto index = dyn_cast_or_null<linalg::IndexOp>(def)) {
    PointNode leaf;
    leaf.kind = PointNode::Kind::Index;
    leaf.index = loops[index.getDim()];
    node = add(std::move(leaf));
  } else if (def && def->getBlock() == op.getBody() &&
             !isa<tensor::ExtractOp>(def)) {
    PointNode inner;
    inner.kind = PointNode::Kind::Op;
    inner.op = def;
    for (Value operand : def->getOperands()) {
      int i = resolveScalar(operand, op, loops, scalars);
      if (i < 0)
        return -1;
      inner.operands.push_back(i);
    }
    node = add(std::move(inner));
  }
  return scalars[scalar] = node;
}

int PointExpressions::resolveElementwise(linalg::GenericOp op, OpResult result,
                                         const DimAtoms &dims) {
  LoopAtoms loops;
  if (!getLoopAtoms(op, result, dims, loops))
    return addLeaf(result, dims);
  llvm::DenseMap<Value, int> scalars;
  Value yielded =
      op.getBody()->getTerminator()->getOperand(result.getResultNumber());
  int node = resolveScalar(yielded, op, loops, scalars);
  if (node < 0)
    return addLeaf(result, dims);
  bool moves = isa<BlockArgument>(yielded);
  if (nodes[node].hasProduct || moves)
    return node;
  // What is the same for all queries or all keys is small: read it, unless
  // there is nothing to read.
  bool isWide = contains(dims, query) && contains(dims, key);
  if (nodes[node].size > kMaxRecomputed || getBodyCost(op) >= kMaxBodyCost ||
      !(nodes[node].isCoordinate || isWide))
    return addLeaf(result, dims);
  return node;
}

int PointExpressions::resolveReduction(linalg::GenericOp op, OpResult result,
                                       const DimAtoms &dims) {
  LoopAtoms loops;
  if (op->getNumResults() != 1 || !getLoopAtoms(op, result, dims, loops))
    return addLeaf(result, dims);
  int64_t keys = space.getTotalSize(space.resolve(key));
  SmallVector<unsigned> reduced;
  op.getReductionDims(reduced);
  llvm::erase_if(reduced, [&](unsigned loop) {
    return op.getStaticLoopRanges()[loop] == 1;
  });
  if (reduced.size() != 1 ||
      op.getStaticLoopRanges()[reduced.front()] != keys || contains(dims, key))
    return addLeaf(result, dims);
  loops[reduced.front()] = key;
  Operation *combiner = getCombiner(op, 0);
  TypedAttr init = getSplatConstant(op.getDpsInits()[0]);
  Value carried = op.getRegionOutputArgs()[0];
  if (!combiner || !init || combiner->getNumOperands() != 2)
    return addLeaf(result, dims);
  Value element = combiner->getOperand(combiner->getOperand(0) == carried);
  llvm::DenseMap<Value, int> scalars;
  int node = resolveScalar(element, op, loops, scalars);
  if (node < 0 || !nodes[node].hasProduct)
    return addLeaf(result, dims);
  PointNode reduce;
  reduce.kind = PointNode::Kind::RowReduce;
  reduce.op = combiner;
  reduce.operands = {node};
  reduce.constant = init;
  return add(std::move(reduce));
}
