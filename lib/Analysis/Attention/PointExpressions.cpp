//===- PointExpressions.cpp - What is computed at a point -----------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Analysis/Attention/PointExpressions.h"
#include "fsdp/Analysis/Kernels/ComputeOps.h"
#include "fsdp/Analysis/Kernels/StridedLayout.h"
#include "fsdp/Dialect/FSDP/IR/FSDP.h"

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
// Ranges
//===----------------------------------------------------------------------===//

/// Casts that keep every value that fits what they make.
static bool isIntegerCast(const PointNode &node) {
  return isa<arith::IndexCastOp, arith::IndexCastUIOp, arith::ExtSIOp,
             arith::ExtUIOp, arith::TruncIOp>(node.op);
}

std::optional<PointExpressions::Range>
PointExpressions::getRange(int node) const {
  const PointNode &at = nodes[node];
  if (at.kind == PointNode::Kind::Index)
    return Range{0, space.getTotalSize(space.resolve(at.index)) - 1};
  if (at.kind == PointNode::Kind::Constant) {
    auto number = dyn_cast<IntegerAttr>(at.constant);
    if (!number || number.getType().isInteger(1) ||
        number.getValue().getSignificantBits() > 64)
      return std::nullopt;
    int64_t value = number.getValue().getSExtValue();
    return Range{value, value};
  }
  if (at.kind != PointNode::Kind::Op || at.size > kMaxRecomputed)
    return std::nullopt;
  std::optional<Range> range;
  if (isIntegerCast(at)) {
    range = getRange(at.operands[0]);
    bool isUnsigned = isa<arith::IndexCastUIOp, arith::ExtUIOp>(at.op);
    if (isUnsigned && range && range->first < 0)
      return std::nullopt;
  } else if (isa<arith::AddIOp, arith::SubIOp>(at.op)) {
    auto a = getRange(at.operands[0]), b = getRange(at.operands[1]);
    if (!a || !b)
      return std::nullopt;
    bool adds = isa<arith::AddIOp>(at.op);
    Range sum;
    bool overflows =
        adds ? llvm::AddOverflow(a->first, b->first, sum.first) ||
                   llvm::AddOverflow(a->second, b->second, sum.second)
             : llvm::SubOverflow(a->first, b->second, sum.first) ||
                   llvm::SubOverflow(a->second, b->first, sum.second);
    if (!overflows)
      range = sum;
  }
  if (!range)
    return std::nullopt;
  Type type = at.op->getResult(0).getType();
  unsigned width = type.isIndex() ? 64 : type.getIntOrFloatBitWidth();
  if (width == 1 || (width < 64 && (!llvm::isIntN(width, range->first) ||
                                    !llvm::isIntN(width, range->second))))
    return std::nullopt;
  return range;
}

std::optional<bool> PointExpressions::getCondition(int node) const {
  const PointNode &at = nodes[node];
  auto compare = at.kind == PointNode::Kind::Op ? dyn_cast<arith::CmpIOp>(at.op)
                                                : arith::CmpIOp();
  if (!compare)
    return std::nullopt;
  auto a = getRange(at.operands[0]), b = getRange(at.operands[1]);
  if (!a || !b)
    return std::nullopt;
  using Predicate = arith::CmpIPredicate;
  Predicate predicate = compare.getPredicate();
  bool isSigned = predicate == Predicate::slt || predicate == Predicate::sle ||
                  predicate == Predicate::sgt || predicate == Predicate::sge ||
                  predicate == Predicate::eq || predicate == Predicate::ne;
  if (!isSigned && (a->first < 0 || b->first < 0))
    return std::nullopt;
  auto isLess = [](const Range &x, const Range &y) -> std::optional<bool> {
    if (x.second < y.first)
      return true;
    return x.first >= y.second ? std::optional<bool>(false) : std::nullopt;
  };
  auto negate = [](std::optional<bool> value) {
    return value ? std::optional<bool>(!*value) : value;
  };
  switch (predicate) {
  case Predicate::slt:
  case Predicate::ult:
    return isLess(*a, *b);
  case Predicate::sgt:
  case Predicate::ugt:
    return isLess(*b, *a);
  case Predicate::sle:
  case Predicate::ule:
    return negate(isLess(*b, *a));
  case Predicate::sge:
  case Predicate::uge:
    return negate(isLess(*a, *b));
  case Predicate::eq:
  case Predicate::ne: {
    bool isEqual = predicate == Predicate::eq;
    if (a->second < b->first || b->second < a->first)
      return !isEqual;
    if (a->first == a->second && *a == *b)
      return isEqual;
    return std::nullopt;
  }
  }
  return std::nullopt;
}

//===----------------------------------------------------------------------===//
// Nodes
//===----------------------------------------------------------------------===//

static size_t getHash(const PointNode &node) {
  llvm::hash_code hash = llvm::hash_value(unsigned(node.kind));
  if (node.kind == PointNode::Kind::Constant)
    hash = llvm::hash_combine(hash, node.constant);
  else if (node.kind == PointNode::Kind::Op)
    hash = llvm::hash_combine(
        hash, node.op->getName(), node.op->getResult(0).getType(),
        llvm::hash_combine_range(node.operands.begin(), node.operands.end()));
  return hash;
}

bool PointExpressions::computeSame(const PointNode &a,
                                   const PointNode &b) const {
  if (a.kind != b.kind)
    return false;
  switch (a.kind) {
  case PointNode::Kind::Constant:
    return a.constant == b.constant;
  case PointNode::Kind::Index:
    return equal(a.index, b.index);
  case PointNode::Kind::Op:
    return a.operands == b.operands && a.op->getName() == b.op->getName() &&
           a.op->getResult(0).getType() == b.op->getResult(0).getType() &&
           a.op->getAttrDictionary() == b.op->getAttrDictionary();
  default:
    return false;
  }
}

int PointExpressions::add(PointNode node) {
  SmallVector<int, 1> &alike = nodesOf[getHash(node)];
  for (int other : alike)
    if (computeSame(nodes[other], node))
      return other;
  for (int operand : node.operands) {
    node.hasProduct |= nodes[operand].hasProduct;
    node.isRandom |= nodes[operand].isRandom;
    node.size += nodes[operand].size;
  }
  node.size = std::min(node.size, kMaxNodes);
  switch (node.kind) {
  case PointNode::Kind::Constant:
  case PointNode::Kind::Index:
    node.isCoordinate = true;
    break;
  case PointNode::Kind::Captured:
    node.isCoordinate = node.dims.empty();
    break;
  case PointNode::Kind::Op:
    node.isCoordinate = llvm::all_of(
        node.operands, [&](int i) { return nodes[i].isCoordinate; });
    node.isRandom |= isa<RandomWordOp>(node.op);
    break;
  case PointNode::Kind::Product:
  case PointNode::Kind::RowReduce:
    break;
  }
  alike.push_back(int(nodes.size()));
  nodes.push_back(std::move(node));
  return int(nodes.size()) - 1;
}

int PointExpressions::addOp(Operation *op, SmallVector<int, 3> operands) {
  // Frameworks write for every index that negative ones count from the end.
  if (isa<arith::SelectOp>(op))
    if (std::optional<bool> condition = getCondition(operands[0]))
      return operands[*condition ? 1 : 2];
  PointNode node;
  node.kind = PointNode::Kind::Op;
  node.op = op;
  node.operands = std::move(operands);
  return add(std::move(node));
}

int PointExpressions::addLeaf(Value tensor, const DimAtoms &dims) {
  PointNode node;
  node.kind = PointNode::Kind::Captured;
  node.value = tensor;
  node.dims = dims;
  Operation *def = tensor.getDefiningOp();
  if (def && isContraction(def) && contains(dims, query) &&
      contains(dims, key)) {
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
  if (isReshape(def)) {
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
  } else if (def && def->getBlock() == op.getBody()) {
    auto extract = dyn_cast<tensor::ExtractOp>(def);
    SmallVector<int, 3> operands;
    for (Value operand : extract ? ValueRange(extract.getIndices())
                                 : ValueRange(def->getOperands())) {
      int i = resolveScalar(operand, op, loops, scalars);
      if (i < 0)
        return -1;
      operands.push_back(i);
    }
    node = extract ? resolveExtract(extract, operands)
                   : addOp(def, std::move(operands));
  }
  return scalars[scalar] = node;
}

/// An element at coordinates that walk all of each dimension, as if the body
/// had it as an operand. -1 for any other.
int PointExpressions::resolveExtract(tensor::ExtractOp extract,
                                     ArrayRef<int> indices) {
  Value tensor = extract.getTensor();
  Operation *def = tensor.getDefiningOp();
  // A score function does not read what lies in no memory.
  if (def && getComputeKind(def) == ComputeKind::Constant &&
      !getSplatConstant(tensor))
    return -1;
  DimAtoms dims;
  for (auto [size, index] :
       llvm::zip(extract.getTensor().getType().getShape(), indices)) {
    std::optional<Range> range = getRange(index);
    if (!range || range->first < 0 || range->second >= size)
      return -1;
    // The range is known, so that casts leave the value as it is.
    int node = index;
    while (nodes[node].kind == PointNode::Kind::Op &&
           isIntegerCast(nodes[node]))
      node = nodes[node].operands[0];
    if (nodes[node].kind == PointNode::Kind::Index &&
        space.getTotalSize(space.resolve(nodes[node].index)) == size)
      dims.push_back(nodes[node].index);
    else if (size == 1)
      dims.emplace_back();
    else
      return -1;
  }
  return resolve(tensor, dims);
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
  bool isTrivial = nodes[node].kind == PointNode::Kind::Constant ||
                   nodes[node].kind == PointNode::Kind::Index;
  if (nodes[node].hasProduct || moves || isTrivial)
    return node;
  // What is the same for all queries or all keys is small: read it, unless
  // there is nothing to read.
  bool isWide = contains(dims, query) && contains(dims, key);
  // What is drawn for each score is drawn again: in memory it would be as large
  // as the scores.
  if (isWide && nodes[node].isRandom && nodes[node].isCoordinate)
    return node;
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
