//===- Contraction.cpp - Matrix products with strided operands ------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Analysis/Kernels/Contraction.h"
#include "fsdp/Analysis/Kernels/ComputeOps.h"
#include "fsdp/Dialect/FSDP/IR/AttributeNames.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Bufferization/IR/Bufferization.h"
#include "mlir/Dialect/Linalg/Utils/Utils.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace mlir::fsdp;

using Pieces = StridedLayout::Dim;

namespace {
/// The loops of a contraction by the part they play.
struct Loops {
  SmallVector<unsigned> batch, m, n, k;
};

/// Strides of one operand for every loop it has; no entry where it lacks one.
using LoopPieces = llvm::SmallDenseMap<unsigned, Pieces>;
} // namespace

static LoopPieces getLoopPieces(AffineMap map, const StridedLayout &layout) {
  LoopPieces pieces;
  for (auto [expr, dim] : llvm::zip(map.getResults(), layout.dims))
    if (auto loop = dyn_cast<AffineDimExpr>(expr))
      pieces[loop.getPosition()] = dim;
  return pieces;
}

/// One strided dimension made of several loops of one operand; fails where they
/// do not lie in memory as one. `size` is what all operands must agree on.
static std::optional<StridedDim> fuse(ArrayRef<unsigned> loops,
                                      const LoopPieces &operand) {
  Pieces all;
  for (unsigned loop : loops) {
    auto it = operand.find(loop);
    if (it == operand.end())
      return std::nullopt;
    llvm::append_range(all, it->second);
  }
  StridedDim whole{1, 0};
  for (StridedDim piece : all) {
    if (piece.size == 1)
      continue;
    if (whole.size == 1)
      whole = piece;
    else if (whole.stride == piece.stride * piece.size)
      whole = {whole.size * piece.size, piece.stride};
    else
      return std::nullopt;
  }
  return whole;
}

/// A matrix of rows x cols in memory, as BLAS wants it: one of the two strides
/// is 1, the other at least as large as the inner extent.
static bool getLeading(StridedDim rows, StridedDim cols, bool &transposed,
                       int64_t &leading) {
  if (cols.size == 1 || cols.stride == 1) {
    int64_t stride = rows.size == 1 ? cols.size : rows.stride;
    if (cols.size == 1 && rows.size != 1 && rows.stride == 1) {
      // One column, contiguous: a row of the transposed matrix.
      transposed = true;
      leading = rows.size;
      return true;
    }
    transposed = false;
    leading = stride;
    return leading >= cols.size && leading > 0;
  }
  if (rows.size == 1 || rows.stride == 1) {
    transposed = true;
    leading = cols.stride;
    return leading >= rows.size && leading > 0;
  }
  return false;
}

/// Cuts the batch loops of all three operands at common borders.
static bool getBatch(ArrayRef<unsigned> loops, ArrayRef<int64_t> sizes,
                     ArrayRef<const LoopPieces *> operands,
                     MatmulShape &shape) {
  struct Level {
    int64_t size;
    std::array<int64_t, 3> strides;
  };
  SmallVector<Level> levels;
  for (unsigned loop : loops) {
    std::array<Pieces, 3> rest;
    for (unsigned i = 0; i != 3; ++i)
      rest[i] = operands[i]->lookup(loop);
    SmallVector<Level> minorFirst;
    for (int64_t left = sizes[loop]; left != 1;) {
      int64_t size = left;
      for (Pieces &pieces : rest) {
        if (pieces.empty())
          return false;
        size = std::min(size, pieces.back().size);
      }
      Level level{size, {}};
      for (unsigned i = 0; i != 3; ++i) {
        StridedDim &piece = rest[i].back();
        if (piece.size % size != 0)
          return false;
        level.strides[i] = piece.stride;
        piece = {piece.size / size, piece.stride * size};
        if (piece.size == 1)
          rest[i].pop_back();
      }
      minorFirst.push_back(level);
      left /= size;
    }
    llvm::append_range(levels, llvm::reverse(minorFirst));
  }
  // Neighbours that lie as one in all three operands are one.
  SmallVector<Level> merged;
  for (Level &level : levels) {
    bool joins = !merged.empty();
    for (unsigned i = 0; joins && i != 3; ++i)
      joins = merged.back().strides[i] == level.strides[i] * level.size;
    if (joins)
      merged.back() = {merged.back().size * level.size, level.strides};
    else
      merged.push_back(level);
  }
  if (merged.size() > 4)
    return false;
  unsigned first = 4 - merged.size();
  for (auto [i, level] : llvm::enumerate(merged)) {
    shape.batch[first + i] = level.size;
    shape.strideA[first + i] = level.strides[0];
    shape.strideB[first + i] = level.strides[1];
    shape.strideC[first + i] = level.strides[2];
  }
  return true;
}

static std::optional<MatmulShape>
getShape(linalg::LinalgOp op, const Loops &loops, const StridedLayout &a,
         const StridedLayout &b, const StridedLayout &c) {
  SmallVector<AffineMap> maps = op.getIndexingMapsArray();
  LoopPieces pa = getLoopPieces(maps[0], a), pb = getLoopPieces(maps[1], b),
             pc = getLoopPieces(maps[2], c);
  MatmulShape shape;
  auto am = fuse(loops.m, pa), ak = fuse(loops.k, pa), bk = fuse(loops.k, pb),
       bn = fuse(loops.n, pb), cm = fuse(loops.m, pc), cn = fuse(loops.n, pc);
  if (!am || !ak || !bk || !bn || !cm || !cn)
    return std::nullopt;
  shape.m = cm->size;
  shape.n = cn->size;
  shape.k = ak->size;
  shape.offsetA = a.offset;
  shape.offsetB = b.offset;
  shape.offsetC = c.offset;
  bool transC;
  if (!getLeading(*am, *ak, shape.transA, shape.lda) ||
      !getLeading(*bk, *bn, shape.transB, shape.ldb) ||
      !getLeading(*cm, *cn, transC, shape.ldc))
    return std::nullopt;
  // A result that is never written twice: no broadcast.
  if ((cm->size != 1 && cm->stride == 0) || (cn->size != 1 && cn->stride == 0))
    return std::nullopt;
  if (!getBatch(loops.batch, op.getStaticLoopRanges(), {&pa, &pb, &pc}, shape))
    return std::nullopt;
  if (transC) {
    // C^T = B^T A^T
    std::swap(shape.m, shape.n);
    std::swap(shape.lda, shape.ldb);
    std::swap(shape.transA, shape.transB);
    std::swap(shape.offsetA, shape.offsetB);
    std::swap(shape.strideA, shape.strideB);
    shape.transA = !shape.transA;
    shape.transB = !shape.transB;
    shape.swapped = true;
  }
  return shape;
}

/// The single reader of `value`, where there is one.
static Operation *getOnlyReader(Value value) {
  if (!value.hasOneUse())
    return nullptr;
  return *value.getUsers().begin();
}

/// Whether @op rounds a tensor to a narrower float, element by element in
/// place: how traces in bf16 end a product that was summed in f32.
static bool isNarrowing(Operation *op) {
  auto generic = dyn_cast<linalg::GenericOp>(op);
  if (!generic || generic.getInputs().size() != 1 ||
      generic.getOutputs().size() != 1 ||
      generic.getNumParallelLoops() != generic.getNumLoops() ||
      !llvm::all_of(generic.getIndexingMapsArray(),
                    [](AffineMap map) { return map.isIdentity(); }))
    return false;
  Block *body = generic.getBlock();
  auto round =
      body->getTerminator()->getOperand(0).getDefiningOp<arith::TruncFOp>();
  return round && round.getIn() == body->getArgument(0) &&
         !round.getRoundingmodeAttr();
}

/// Whether @body yields the sum of its first two arguments, in their own type
/// or widened to f32, added and rounded, which is the same.
static bool isAddition(Block *body) {
  Value yielded = body->getTerminator()->getOperand(0);
  auto round = yielded.getDefiningOp<arith::TruncFOp>();
  auto add = round ? round.getIn().getDefiningOp<arith::AddFOp>()
                   : yielded.getDefiningOp<arith::AddFOp>();
  if (!add || add->getBlock() != body ||
      body->getOperations().size() != (round ? 5 : 2) ||
      (round && (round.getRoundingmodeAttr() || !add.getType().isF32())))
    return false;
  auto getSource = [&](Value value) {
    auto widen = value.getDefiningOp<arith::ExtFOp>();
    return round && widen ? widen.getIn() : value;
  };
  Value first = body->getArgument(0), second = body->getArgument(1),
        lhs = getSource(add.getLhs()), rhs = getSource(add.getRhs());
  return (lhs == first && rhs == second) || (lhs == second && rhs == first);
}

std::optional<EpilogueAddition> fsdp::getEpilogueAddition(Operation *op,
                                                          Value product) {
  auto generic = dyn_cast<linalg::GenericOp>(op);
  if (!generic || generic.getInputs().size() != 2 ||
      generic.getOutputs().size() != 1 ||
      generic.getNumParallelLoops() != generic.getNumLoops())
    return std::nullopt;
  if (!isAddition(generic.getBlock()))
    return std::nullopt;
  unsigned at = generic.getInputs()[0] == product ? 0 : 1;
  Value other = generic.getInputs()[1 - at];
  SmallVector<AffineMap> maps = generic.getIndexingMapsArray();
  // No library is asked for f64, whose epilogues are rare.
  Type element = getElementTypeOrSelf(product);
  if (generic.getInputs()[at] != product || other == product ||
      element.isF64() || !maps[at].isIdentity() || !maps[2].isIdentity() ||
      getElementTypeOrSelf(other) != element ||
      getElementTypeOrSelf(generic.getResult(0)) != element)
    return std::nullopt;
  AffineMap map = maps[1 - at];
  unsigned loops = generic.getNumLoops();
  bool isBias =
      loops > 1 && map.getNumResults() == 1 &&
      map.getResult(0) == getAffineDimExpr(loops - 1, op->getContext());
  if (!isBias && !map.isIdentity())
    return std::nullopt;
  return EpilogueAddition{other, isBias};
}

/// Follows reshapes, transposes, a rounding and marked additions of the
/// contraction's result while each is the only reader, and gives the layout in
/// which the op's own result must be written. Absorbs the longest such chain
/// that ends in a transpose, in the rounding or in an addition; after an
/// addition nothing is scaled.
static SmallVector<std::pair<Value, SmallVector<Operation *>>>
getResultChains(Value result) {
  SmallVector<std::pair<Value, SmallVector<Operation *>>> chains;
  chains.push_back({result, {}});
  SmallVector<Operation *> chain;
  Value value = result;
  bool hasAdded = false;
  while (Operation *reader = getOnlyReader(value)) {
    bool reshape = isReshape(reader) && isViewOp(reader);
    std::optional<Move> move = getMove(reader);
    bool permutes =
        move && move->isPermutation() && !(hasAdded && move->scale != 1.0);
    bool narrows = !hasAdded && isNarrowing(reader);
    bool adds =
        reader->hasAttr(names::kEpilogue) && getEpilogueAddition(reader, value);
    if (!reshape && !permutes && !narrows && !adds)
      break;
    hasAdded |= adds;
    chain.push_back(reader);
    value = reader->getResult(0);
    if (permutes || narrows || adds)
      chains.push_back({value, chain});
  }
  std::reverse(chains.begin(), chains.end());
  return chains;
}

/// Where the elements of @end lie: in a slice of the destination that it is
/// stored in, else in a tensor of their own.
static StridedLayout getStoredLayout(Value end) {
  auto store = dyn_cast_if_present<bufferization::MaterializeInDestinationOp>(
      getOnlyReader(end));
  if (store && store.getSource() == end) {
    ViewedValue place = lookThroughViews(store.getDest());
    if (isa<BlockArgument>(place.source))
      return place.layout;
  }
  return StridedLayout::getContiguous(
      cast<RankedTensorType>(end.getType()).getShape());
}

/// The value that op @i of @chain reads of it, which begins at @result.
static Value getChainValue(Value result, ArrayRef<Operation *> chain,
                           unsigned i) {
  return i == 0 ? result : chain[i - 1]->getResult(0);
}

/// Notes in @plan what @op adds to @product, if that lies where a BLAS reads it
/// for a result of @layout: a bias along its contiguous dimension, an addend as
/// the result does.
static bool addToEpilogue(Operation *op, Value product,
                          const StridedLayout &layout, ContractionPlan &plan) {
  std::optional<EpilogueAddition> addition = getEpilogueAddition(op, product);
  if (!addition)
    return false;
  ViewedValue viewed = lookThroughViews(addition->other);
  Value &place = addition->isBias ? plan.bias : plan.addend;
  Operation *def = viewed.source.getDefiningOp();
  bool isWritten = !def || (!isViewOp(def) && !getMove(def) &&
                            getComputeKind(def) != ComputeKind::Constant &&
                            getComputeKind(def) != ComputeKind::Scalar);
  if (place || !isWritten || viewed.layout.offset != 0 || layout.offset != 0)
    return false;
  place = viewed.source;
  StridedLayout::Dim elements = viewed.layout.getFlattened();
  if (!addition->isBias)
    return elements == layout.getFlattened();
  StridedLayout::Dim columns = layout.dims.back();
  if (columns.size() != 1 || columns.front().stride != 1 || elements != columns)
    return false;
  plan.biasSize = columns.front().size;
  return true;
}

/// The layout of the contraction's own result inside the tensor that the chain
/// ends in: the chain, read backwards. What the chain adds becomes @plan's.
static std::optional<StridedLayout> getResultLayout(Value result, Value end,
                                                    ArrayRef<Operation *> chain,
                                                    ContractionPlan &plan) {
  auto getShapeOf = [](Value v) {
    return cast<RankedTensorType>(v.getType()).getShape();
  };
  std::optional<StridedLayout> layout = getStoredLayout(end);
  for (unsigned i = chain.size(); i-- > 0;) {
    if (!layout)
      return std::nullopt;
    Operation *op = chain[i];
    Value source = getChainValue(result, chain, i);
    if (op->hasAttr(names::kEpilogue)) {
      if (!addToEpilogue(op, source, *layout, plan))
        return std::nullopt;
    } else if (auto expand = dyn_cast<tensor::ExpandShapeOp>(op)) {
      layout = layout->collapse(expand.getReassociationIndices());
    } else if (auto collapse = dyn_cast<tensor::CollapseShapeOp>(op)) {
      layout = layout->expand(collapse.getReassociationIndices(),
                              getShapeOf(source));
    } else if (!isNarrowing(op)) {
      Move move = *getMove(op);
      StridedLayout inverse;
      inverse.offset = layout->offset;
      inverse.dims.resize(move.dims.size());
      for (auto [i, dim] : llvm::enumerate(move.dims))
        inverse.dims[dim] = layout->dims[i];
      layout = inverse;
    }
  }
  return layout;
}

/// The product of the factors in a chain of moves.
static double getChainScale(ArrayRef<Operation *> chain) {
  double scale = 1.0;
  for (Operation *op : chain)
    if (std::optional<Move> move = getMove(op))
      scale *= move->scale;
  return scale;
}

static std::optional<ContractionPlan>
planContraction(linalg::LinalgOp op, const llvm::DenseSet<Value> &hidden) {
  FailureOr<linalg::ContractionDimensions> dims =
      linalg::inferContractionDims(op);
  if (failed(dims) || op.getNumDpsInputs() != 2)
    return std::nullopt;
  Type element = getElementTypeOrSelf(op.getDpsInputs()[0]);
  if (getElementTypeOrSelf(op.getDpsInputs()[1]) != element)
    return std::nullopt;
  // Narrow products are summed in f32 in any case: where the trace says so, it
  // says what a BLAS does, which rounds the sum if the trace does.
  Type sum = getElementTypeOrSelf(op->getResult(0));
  bool sumsWide = sum.isF32() && (element.isBF16() || element.isF16());
  if (sum != element && !sumsWide)
    return std::nullopt;
  if (!element.isF32() && !element.isF64() && !element.isBF16() &&
      !element.isF16())
    return std::nullopt;

  Loops loops{llvm::to_vector(dims->batch), llvm::to_vector(dims->m),
              llvm::to_vector(dims->n), llvm::to_vector(dims->k)};
  ContractionPlan plan;
  plan.op = op;
  TypedAttr splat = getSplatConstant(op.getDpsInits()[0]);
  plan.zeroInit = splat && matchPattern(splat, m_AnyZeroFloat());
  auto chains = getResultChains(op->getResult(0));
  // A result that starts at a tensor is written where that tensor lies.
  if (!plan.zeroInit)
    chains.erase(chains.begin(), chains.end() - 1);
  for (auto &[end, chain] : chains) {
    Type written = getElementTypeOrSelf(end);
    if (written != element && written != sum)
      continue;
    plan.bias = plan.addend = {};
    auto c = getResultLayout(op->getResult(0), end, chain, plan);
    if (!c)
      continue;
    for (const ViewedValue &a : lookThroughMoves(op.getDpsInputs()[0], hidden))
      for (const ViewedValue &b :
           lookThroughMoves(op.getDpsInputs()[1], hidden)) {
        auto shape = getShape(op, loops, a.layout, b.layout, *c);
        // The bias runs along columns of C.
        if (!shape ||
            (plan.bias && (shape->swapped || shape->n != plan.biasSize)))
          continue;
        shape->alpha = a.scale * b.scale * getChainScale(chain);
        plan.shape = *shape;
        plan.sourceA = shape->swapped ? b.source : a.source;
        plan.sourceB = shape->swapped ? a.source : b.source;
        plan.result = end;
        plan.absorbed = chain;
        return plan;
      }
  }
  return std::nullopt;
}

ContractionPlans::ContractionPlans(Block *block) {
  // Values in the middle of what was absorbed.
  llvm::DenseSet<Value> hidden;
  for (Operation &op : *block) {
    if (!isContraction(&op))
      continue;
    auto plan = planContraction(cast<linalg::LinalgOp>(op), hidden);
    if (!plan)
      continue;
    for (unsigned i = 0, e = plan->absorbed.size(); i != e; ++i)
      hidden.insert(getChainValue(op.getResult(0), plan->absorbed, i));
    plans.try_emplace(&op, std::move(*plan));
  }
}
