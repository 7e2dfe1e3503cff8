//===- AttentionOperands.cpp - Tensors around an attention ----------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "AttentionOperands.h"
#include "fsdp/Analysis/Kernels/ComputeOps.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace mlir::fsdp;

namespace {
/// A linalg op that moves one tensor's elements, cast or multiplied.
struct Mover {
  linalg::GenericOp op;
  OpOperand *source = nullptr;
  double scale = 1.0;
  bool widens = false, narrows = false;
};
} // namespace

static std::optional<Mover> getMover(Operation *def) {
  auto op = dyn_cast_or_null<linalg::GenericOp>(def);
  if (!op || op->getNumResults() != 1 ||
      getComputeKind(op) != ComputeKind::Elementwise)
    return std::nullopt;
  Mover mover;
  mover.op = op;
  Value value = op.getBody()->getTerminator()->getOperand(0);
  while (Operation *inner = value.getDefiningOp()) {
    if (inner->getBlock() != op.getBody())
      return std::nullopt;
    if (isa<arith::ExtFOp>(inner)) {
      mover.widens = true;
      value = inner->getOperand(0);
    } else if (isa<arith::TruncFOp>(inner)) {
      mover.narrows = true;
      value = inner->getOperand(0);
    } else if (isa<arith::MulFOp>(inner)) {
      FloatAttr factor;
      unsigned constant =
          matchPattern(inner->getOperand(0), m_Constant()) ? 0 : 1;
      if (!matchPattern(inner->getOperand(constant), m_Constant(&factor)))
        return std::nullopt;
      mover.scale *= factor.getValueAsDouble();
      value = inner->getOperand(1 - constant);
    } else {
      return std::nullopt;
    }
  }
  auto arg = cast<BlockArgument>(value);
  if (arg.getOwner() != op.getBody())
    return std::nullopt;
  mover.source = op.getMatchingOpOperand(arg);
  if (!op.isDpsInput(mover.source) ||
      !isa<RankedTensorType>(mover.source->get().getType()))
    return std::nullopt;
  return mover;
}

static SmallVector<IndexSpace::AtomList>
getLoopAtoms(unsigned numLoops, AffineMap map, const DimAtoms &dims) {
  SmallVector<IndexSpace::AtomList> loops(numLoops);
  for (auto [expr, list] : llvm::zip(map.getResults(), dims))
    if (auto dim = dyn_cast<AffineDimExpr>(expr))
      loops[dim.getPosition()] = list;
  return loops;
}

static DimAtoms getMapped(AffineMap map, ArrayRef<IndexSpace::AtomList> loops) {
  DimAtoms dims;
  for (AffineExpr expr : map.getResults()) {
    auto dim = dyn_cast<AffineDimExpr>(expr);
    dims.push_back(dim ? loops[dim.getPosition()] : IndexSpace::AtomList());
  }
  return dims;
}

WalkedTensor fsdp::walkBack(PointExpressions &points, Value value,
                            DimAtoms dims) {
  double scale = 1.0;
  while (Operation *def = value.getDefiningOp()) {
    if (isReshape(def)) {
      DimAtoms source;
      if (!points.getSourceDims(def, dims, source))
        break;
      dims = source;
      value = def->getOperand(0);
      continue;
    }
    std::optional<Mover> mover = getMover(def);
    if (!mover || mover->narrows)
      break;
    AffineMap out =
        mover->op.getIndexingMapMatchingResult(mover->op->getResult(0));
    dims = getMapped(mover->op.getMatchingIndexingMap(mover->source),
                     getLoopAtoms(mover->op.getNumLoops(), out, dims));
    scale *= mover->scale;
    value = mover->source->get();
  }
  WalkedTensor walked;
  walked.scale = scale;
  walked.dims = dims;
  ViewedValue viewed = lookThroughViews(value);
  walked.tensor = viewed.source;
  walked.layout = viewed.layout;
  walked.scale *= viewed.scale;
  return walked;
}

/// Whether a reduction's body adds its element, widened or not, and that is
/// all.
static bool isPlainSum(linalg::GenericOp op) {
  auto sum = dyn_cast_or_null<arith::AddFOp>(getCombiner(op, 0));
  if (!sum)
    return false;
  Value element = op.getBody()->getArgument(0);
  for (Operation &inner : op.getBody()->without_terminator()) {
    bool widens = isa<arith::ExtFOp>(inner) && inner.getOperand(0) == element;
    if (&inner != sum && !widens)
      return false;
  }
  return llvm::any_of(sum->getOperands(), [&](Value added) {
    auto cast = added.getDefiningOp<arith::ExtFOp>();
    return added == element || (cast && cast.getIn() == element);
  });
}

/// The dimensions of a sum of parts of the batch; false where it is more.
static bool walkSum(PointExpressions &points, linalg::GenericOp op, Value value,
                    DimAtoms &dims) {
  if (getComputeKind(op) != ComputeKind::Reduction ||
      op->getNumResults() != 1 || op.getNumDpsInputs() != 1 ||
      op.getDpsInputs()[0] != value)
    return false;
  TypedAttr init = getSplatConstant(op.getDpsInits()[0]);
  if (!init || !matchPattern(init, m_AnyZeroFloat()) || !isPlainSum(op))
    return false;
  auto loops =
      getLoopAtoms(op.getNumLoops(),
                   op.getMatchingIndexingMap(op.getDpsInputOperand(0)), dims);
  SmallVector<unsigned> reduced;
  op.getReductionDims(reduced);
  auto batch = points.space.resolve(points.batch);
  for (unsigned loop : reduced)
    for (IndexSpace::Atom atom : points.space.resolve(loops[loop]))
      if (!llvm::is_contained(batch, atom))
        return false;
  dims = getMapped(op.getIndexingMapMatchingResult(op->getResult(0)), loops);
  return true;
}

WalkedTensor fsdp::walkForward(PointExpressions &points, Value value,
                               DimAtoms dims, Through through) {
  double scale = 1.0;
  bool linear = through != Through::Nothing;
  // Where the first widening stood that no sum followed yet.
  struct Mark {
    Value value;
    DimAtoms dims;
    double scale;
  };
  std::optional<Mark> widened;
  while (value.hasOneUse()) {
    Operation *user = *value.getUsers().begin();
    if (user->getBlock() != value.getParentBlock())
      break;
    if (isReshape(user)) {
      DimAtoms result;
      if (!points.getResultDims(user, dims, result))
        break;
      dims = result;
      value = user->getResult(0);
      continue;
    }
    auto generic = dyn_cast<linalg::GenericOp>(user);
    if (through == Through::Sums && generic &&
        walkSum(points, generic, value, dims)) {
      value = user->getResult(0);
      widened.reset();
      continue;
    }
    std::optional<Mover> mover = getMover(user);
    if (!mover || mover->source->get() != value ||
        (!linear && mover->scale != 1.0))
      break;
    if (mover->widens && (through != Through::Sums || mover->narrows))
      break;
    // What is widened stays so until it is added.
    if (widened && (mover->narrows || mover->scale != 1.0))
      break;
    // Not what repeats elements.
    AffineMap map = mover->op.getMatchingIndexingMap(mover->source);
    auto loops = getLoopAtoms(mover->op.getNumLoops(), map, dims);
    bool repeats = false;
    for (auto [size, list] : llvm::zip(mover->op.getStaticLoopRanges(), loops))
      repeats |= size != points.space.getTotalSize(points.space.resolve(list));
    if (repeats)
      break;
    if (mover->widens && !widened)
      widened = Mark{value, dims, scale};
    dims = getMapped(
        mover->op.getIndexingMapMatchingResult(mover->op->getResult(0)), loops);
    scale *= mover->scale;
    value = user->getResult(0);
  }
  if (widened)
    std::tie(value, dims, scale) =
        std::tie(widened->value, widened->dims, widened->scale);
  WalkedTensor walked;
  walked.tensor = value;
  walked.dims = dims;
  walked.layout = StridedLayout::getContiguous(
      cast<RankedTensorType>(value.getType()).getShape());
  walked.scale = scale;
  return walked;
}

WalkedTensor fsdp::walkGradient(PointExpressions &points,
                                const GradientProduct &product,
                                Through through) {
  WalkedTensor walked =
      walkForward(points, product.result, product.dims, through);
  walked.scale *= product.scale;
  return walked;
}

/// The parts of the batch that a tensor has elements of its own for.
static SmallVector<IndexSpace::Atom> getOwnBatch(const PointExpressions &points,
                                                 const WalkedTensor &walked) {
  SmallVector<IndexSpace::Atom> own;
  for (IndexSpace::Atom atom : points.space.resolve(points.batch))
    if (llvm::any_of(walked.dims, [&](const IndexSpace::AtomList &list) {
          return llvm::is_contained(points.space.resolve(list), atom);
        }))
      own.push_back(atom);
  return own;
}

std::pair<std::optional<WalkedTensor>, std::optional<WalkedTensor>>
fsdp::walkKeysAndValues(PointExpressions &points,
                        const std::optional<GradientProduct> &keys,
                        const std::optional<GradientProduct> &values) {
  std::optional<WalkedTensor> dk, dv;
  for (Through through : {Through::Sums, Through::Factors}) {
    if (keys)
      dk = walkGradient(points, *keys, through);
    if (values)
      dv = walkGradient(points, *values, through);
    if (!dk || !dv || getOwnBatch(points, *dk) == getOwnBatch(points, *dv))
      break;
  }
  return {dk, dv};
}

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

DimAtoms WalkedProduct::getDims(OpOperand *operand) const {
  linalg::LinalgOp linalgOp = op;
  return getMapped(linalgOp.getMatchingIndexingMap(operand), loops);
}

DimAtoms WalkedProduct::getResultDims() const {
  linalg::LinalgOp linalgOp = op;
  return getMapped(linalgOp.getIndexingMapMatchingResult(op->getResult(0)),
                   loops);
}

std::optional<WalkedProduct> fsdp::getProductLoops(Operation *def) {
  auto op = dyn_cast_or_null<linalg::LinalgOp>(def);
  if (!op || !isContraction(def))
    return std::nullopt;
  TypedAttr init = getSplatConstant(op.getDpsInits()[0]);
  if (!init || !matchPattern(init, m_AnyZeroFloat()))
    return std::nullopt;
  WalkedProduct product;
  product.op = op;
  product.loops.resize(op.getNumLoops());
  SmallVector<unsigned> reduced;
  op.getReductionDims(reduced);
  if (reduced.size() != 1)
    return std::nullopt;
  product.reduced = reduced.front();
  // Which operands walk over each loop.
  SmallVector<unsigned> users(op.getNumLoops());
  for (OpOperand *operand : op.getDpsInputOperands())
    for (AffineExpr expr : op.getMatchingIndexingMap(operand).getResults()) {
      auto dim = dyn_cast<AffineDimExpr>(expr);
      if (!dim)
        return std::nullopt;
      users[dim.getPosition()] |= 1u << operand->getOperandNumber();
    }
  for (unsigned loop = 0, e = op.getNumLoops(); loop != e; ++loop) {
    if (users[loop] == 3)
      continue;
    int &slot = users[loop] == 1 ? product.rows : product.columns;
    if (users[loop] == 0 || slot >= 0)
      return std::nullopt;
    slot = loop;
  }
  if (product.rows < 0 || product.columns < 0)
    return std::nullopt;
  return product;
}

bool fsdp::walkOperand(PointExpressions &points, WalkedProduct &product,
                       OpOperand *known, const DimAtoms &dims) {
  product.loops = getLoopAtoms(product.op.getNumLoops(),
                               product.op.getMatchingIndexingMap(known), dims);
  SmallVector<int64_t> sizes = product.op.getStaticLoopRanges();
  int other = known->getOperandNumber() == 0 ? product.columns : product.rows;
  product.loops[other] = points.space.create(sizes[other]);
  return true;
}

//===----------------------------------------------------------------------===//
// Strides
//===----------------------------------------------------------------------===//

bool fsdp::splitAtLayout(PointExpressions &points, const WalkedTensor &walked) {
  if (walked.layout.dims.size() != walked.dims.size())
    return false;
  for (auto [list, dim] : llvm::zip(walked.dims, walked.layout.dims)) {
    IndexSpace trial = points.space;
    if (!trial.splitAt(list, dim))
      return false;
    points.space = std::move(trial);
  }
  return true;
}

SmallVector<int64_t> fsdp::getStrides(const PointExpressions &points,
                                      const WalkedTensor &walked,
                                      ArrayRef<IndexSpace::Atom> atoms) {
  llvm::DenseMap<IndexSpace::Atom, int64_t> strideOf;
  for (auto [list, dim] : llvm::zip(walked.dims, walked.layout.dims)) {
    IndexSpace::AtomList resolved = points.space.resolve(list);
    auto strides = points.space.getStrides(resolved, dim);
    for (auto [atom, stride] : llvm::zip(resolved, strides))
      strideOf[atom] += stride;
  }
  SmallVector<int64_t> result;
  for (IndexSpace::Atom atom : points.space.resolve(atoms))
    result.push_back(strideOf.lookup(atom));
  return result;
}
