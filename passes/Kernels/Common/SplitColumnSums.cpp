//===- SplitColumnSums.cpp - Sums over rows in two steps ------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The gradients of a bias and of a norm's weight are sums over all rows of a
// batch, a number for each column. One work item for each column leaves most of
// a GPU idle. So rows are divided into chunks, whose sums are items of their
// own, and the sums of chunks are summed:
//
//     y[c] = sum of x[r, c]
//  -> p[k, c] = sum of x[k * size + r, c] for r < size;  y[c] = sum of p[k, c]
//
// All ops that a loop kernel fuses with the first sum run over chunks, too.
//
// A sum beside reductions of the same rows, as in a norm's gradient, may share
// their kernel, in which a block goes over the rows of a chunk one after
// another (KernelDomain::getSweep). A chunk is then all that a block does, with
// threads for all columns, so chunks are smaller.
//
//===----------------------------------------------------------------------===//

#include "fsdp/Analysis/Kernels/ComputeOps.h"
#include "fsdp/Analysis/Kernels/KernelDomain.h"
#include "fsdp/Analysis/Kernels/StridedLayout.h"
#include "fsdp/Analysis/Step/StepArguments.h"
#include "fsdp/Passes/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/IRMapping.h"

namespace mlir::fsdp {
#define GEN_PASS_DEF_SPLITCOLUMNSUMS
#include "fsdp/Passes/Passes.h.inc"
} // namespace mlir::fsdp

using namespace mlir;
using namespace mlir::fsdp;

/// Elements of a sum below which a second launch costs more than it brings.
constexpr int64_t kLargeSum = int64_t(1) << 20;

/// A chunk has at least so many rows: its sums are written and read once more.
constexpr int64_t kFewestRows = 16;

/// The same of sums that share a kernel with their rows, which reads and writes
/// more of a row. And how many times @items sums there are then: with a thread
/// for each four columns of each chunk, 8 * 65536 sums are of 131072 threads,
/// half of what 132 multiprocessors hold.
constexpr int64_t kFewestSweptRows = 8, kSweptItems = 8;

/// Ops that a search for what an op is made of goes through.
constexpr size_t kMostOps = 64;

//===----------------------------------------------------------------------===//
// Analysis
//===----------------------------------------------------------------------===//

namespace {
/// Reduction loop `loop` becomes two: over `chunks`, and over what is in one.
struct Split {
  unsigned loop;
  int64_t chunks;
};

/// By loop; none: the sum stays as it is.
using Splits = SmallVector<Split, 2>;
} // namespace

/// Of the operand that walks all loops of @op, a column sum.
static AffineMap getWidestMap(linalg::GenericOp op) {
  for (OpOperand *operand : op.getDpsInputOperands())
    if (AffineMap map = op.getMatchingIndexingMap(operand);
        map.getNumResults() == op.getNumLoops())
      return map;
  llvm_unreachable("isColumnSum looks at such an operand");
}

/// Values with an element for each point of @op's loops that @op reads, or that
/// pointwise ops make what it reads of.
static llvm::SmallSetVector<Value, 16> collectSources(linalg::GenericOp op) {
  int64_t points = 1;
  for (int64_t size : op.getStaticLoopRanges())
    points *= size;
  llvm::SmallSetVector<Value, 16> sources;
  auto add = [&](linalg::GenericOp reader) {
    for (Value input : reader.getDpsInputs()) {
      auto type = dyn_cast<RankedTensorType>(input.getType());
      if (type && type.hasStaticShape() && type.getNumElements() == points)
        sources.insert(lookThroughReshapes(input));
    }
  };
  add(op);
  for (size_t i = 0; i < sources.size() && i < kMostOps; ++i)
    if (auto maker = sources[i].getDefiningOp<linalg::GenericOp>();
        maker && isPointwise(maker))
      add(maker);
  return sources;
}

namespace {
/// What reductions of rows are made of, in forward and in backward.
class RowSources {
public:
  explicit RowSources(ProgramOp step) : loss(getForwardEnd(step)) {
    for (auto op : step.getBody().front().getOps<linalg::GenericOp>())
      if (getComputeKind(op) == ComputeKind::Reduction && !isColumnSum(op) &&
          isOfRows(op))
        sources[isForward(op)].insert_range(collectSources(op));
  }

  /// Whether rows that @op sums are reduced as well, in the same phase.
  bool haveRowsOf(linalg::GenericOp op) const {
    return llvm::any_of(collectSources(op), [&](Value source) {
      return sources[isForward(op)].contains(source);
    });
  }

private:
  /// Whether @op reduces several rows, of columns that a sweep may have.
  static bool isOfRows(linalg::GenericOp op) {
    int64_t rows = 1, columns = 1;
    for (auto [size, iterator] :
         llvm::zip(op.getStaticLoopRanges(), op.getIteratorTypesArray()))
      (linalg::isParallelIterator(iterator) ? rows : columns) *= size;
    return rows > 1 && columns <= kMostSweptColumns &&
           columns >= kFewestSweptColumns;
  }

  bool isForward(Operation *op) const {
    return loss && loss->getBlock() == op->getBlock() &&
           op->isBeforeInBlock(loss);
  }

  Operation *loss;
  llvm::DenseSet<Value> sources[2];
};
} // namespace

/// How many chunks @op is to be divided into at most: as many as it takes to
/// have @items sums, and of no fewer rows than @fewestRows. 1 where @op has
/// @items results, or fewer elements than kLargeSum.
static int64_t countChunks(linalg::GenericOp op, int64_t items,
                           int64_t fewestRows) {
  int64_t results = 1, rows = 1;
  for (auto [size, iterator] :
       llvm::zip(op.getStaticLoopRanges(), op.getIteratorTypesArray()))
    (linalg::isParallelIterator(iterator) ? results : rows) *= size;
  if (results >= items || results * rows < kLargeSum)
    return 1;
  return std::min<int64_t>(llvm::divideCeil(items, results), rows / fewestRows);
}

/// The largest divisor of @size up to @most.
static int64_t getDivisor(int64_t size, int64_t most) {
  int64_t divisor = std::clamp<int64_t>(most, 1, size);
  while (size % divisor != 0)
    --divisor;
  return divisor;
}

/// Of @op's reduction loops the one that divides into most equal chunks, up to
/// @most.
static Splits chooseSplit(linalg::GenericOp op, int64_t most) {
  Splits best;
  for (auto [loop, size, iterator] :
       llvm::enumerate(op.getStaticLoopRanges(), op.getIteratorTypesArray())) {
    int64_t chunks =
        linalg::isParallelIterator(iterator) ? 1 : getDivisor(size, most);
    if (chunks > (best.empty() ? 1 : best.front().chunks))
      best = {Split{unsigned(loop), chunks}};
  }
  return best;
}

/// Chunks of rows that follow each other in memory, up to @most: all points of
/// outer reduction loops, and equal parts of the next. Sums over the same rows
/// so have the same chunks, whether rows are one dimension or several, unless
/// their numbers have other divisors.
static Splits chooseRows(linalg::GenericOp op, int64_t most) {
  Splits splits;
  SmallVector<int64_t> sizes = op.getStaticLoopRanges();
  SmallVector<utils::IteratorType> iterators = op.getIteratorTypesArray();
  for (AffineExpr expr : getWidestMap(op).getResults()) {
    auto dim = dyn_cast<AffineDimExpr>(expr);
    if (!dim || linalg::isParallelIterator(iterators[dim.getPosition()]) ||
        most <= 1)
      continue;
    unsigned loop = dim.getPosition();
    int64_t chunks = getDivisor(sizes[loop], most);
    if (chunks == 1)
      continue;
    splits.push_back({loop, chunks});
    most = chunks == sizes[loop] ? most / chunks : 1;
  }
  llvm::sort(splits, [](Split a, Split b) { return a.loop < b.loop; });
  return splits;
}

//===----------------------------------------------------------------------===//
// Application
//===----------------------------------------------------------------------===//

/// The loop over chunks of split @number; the one over their rows follows it.
static unsigned getChunkLoop(ArrayRef<Split> splits, unsigned number) {
  return splits[number].loop + number;
}

/// @expr, a loop that is not split or a constant, among the new loops.
static AffineExpr shift(AffineExpr expr, ArrayRef<Split> splits) {
  auto loop = dyn_cast<AffineDimExpr>(expr);
  if (!loop)
    return expr;
  unsigned before = llvm::count_if(
      splits, [&](Split split) { return split.loop < loop.getPosition(); });
  return getAffineDimExpr(loop.getPosition() + before, expr.getContext());
}

/// @tensor with each dimension that a loop of @splits walks in @map split in
/// two, [chunks, rows of a chunk], and the map of that.
static std::pair<Value, AffineMap> splitOperand(OpBuilder &builder,
                                                Location loc, Value tensor,
                                                AffineMap map,
                                                ArrayRef<Split> splits) {
  SmallVector<AffineExpr> exprs;
  SmallVector<ReassociationIndices> groups;
  SmallVector<int64_t> shape;
  auto type = cast<RankedTensorType>(tensor.getType());
  auto add = [&](AffineExpr expr, int64_t size) {
    groups.back().push_back(shape.size());
    exprs.push_back(expr);
    shape.push_back(size);
  };
  for (auto [expr, size] : llvm::zip(map.getResults(), type.getShape())) {
    groups.emplace_back();
    auto split = llvm::find_if(splits, [&, expr = expr](Split split) {
      return expr == builder.getAffineDimExpr(split.loop);
    });
    if (split == splits.end()) {
      add(shift(expr, splits), size);
      continue;
    }
    unsigned loop = getChunkLoop(splits, split - splits.begin());
    add(builder.getAffineDimExpr(loop), split->chunks);
    add(builder.getAffineDimExpr(loop + 1), size / split->chunks);
  }
  AffineMap wider = AffineMap::get(map.getNumDims() + splits.size(), 0, exprs,
                                   builder.getContext());
  if (shape.size() == size_t(type.getRank()))
    return {tensor, wider};
  return {tensor::ExpandShapeOp::create(
              builder, loc, RankedTensorType::get(shape, type.getElementType()),
              tensor, groups),
          wider};
}

/// A tensor of @type full of what leaves @combiner's other operand as it is.
static Value createNeutral(OpBuilder &builder, Location loc,
                           RankedTensorType type, Operation *combiner) {
  Value neutral = arith::ConstantOp::create(
      builder, loc, *arith::getNeutralElement(combiner));
  Value empty = tensor::EmptyOp::create(builder, loc, type.getShape(),
                                        type.getElementType());
  return linalg::FillOp::create(builder, loc, neutral, empty).getResult(0);
}

static void applySplits(linalg::GenericOp op, ArrayRef<Split> splits) {
  OpBuilder builder(op);
  Location loc = op.getLoc();
  unsigned loops = op.getNumLoops() + splits.size();
  SmallVector<Value> inputs, inits;
  SmallVector<AffineMap> maps;
  for (OpOperand *operand : op.getDpsInputOperands()) {
    auto [tensor, map] =
        splitOperand(builder, loc, operand->get(),
                     op.getMatchingIndexingMap(operand), splits);
    inputs.push_back(tensor);
    maps.push_back(map);
  }
  // Results of chunks have the numbers of the chunk as first dimensions.
  for (OpResult result : op->getResults()) {
    auto type = cast<RankedTensorType>(result.getType());
    SmallVector<int64_t> shape;
    SmallVector<AffineExpr> exprs;
    for (auto [number, split] : llvm::enumerate(splits)) {
      shape.push_back(split.chunks);
      exprs.push_back(builder.getAffineDimExpr(getChunkLoop(splits, number)));
    }
    llvm::append_range(shape, type.getShape());
    for (AffineExpr expr : op.getIndexingMapMatchingResult(result).getResults())
      exprs.push_back(shift(expr, splits));
    maps.push_back(AffineMap::get(loops, 0, exprs, op.getContext()));
    inits.push_back(createNeutral(
        builder, loc, RankedTensorType::get(shape, type.getElementType()),
        getCombiner(op, result.getResultNumber())));
  }
  SmallVector<utils::IteratorType> iterators;
  for (auto [loop, iterator] : llvm::enumerate(op.getIteratorTypesArray())) {
    if (llvm::any_of(splits,
                     [loop = loop](Split split) { return split.loop == loop; }))
      iterators.push_back(utils::IteratorType::parallel);
    iterators.push_back(iterator);
  }
  auto chunks = linalg::GenericOp::create(builder, loc, TypeRange(inits),
                                          inputs, inits, maps, iterators);
  IRMapping mapping;
  op.getRegion().cloneInto(&chunks.getRegion(), mapping);

  SmallVector<Value> sums;
  for (auto [result, partial] :
       llvm::zip(op->getResults(), chunks->getResults())) {
    unsigned number = result.getResultNumber();
    unsigned rank = cast<RankedTensorType>(partial.getType()).getRank();
    AffineMap all = builder.getMultiDimIdentityMap(rank);
    SmallVector<utils::IteratorType> over(splits.size(),
                                          utils::IteratorType::reduction);
    over.resize(rank, utils::IteratorType::parallel);
    auto sum = linalg::GenericOp::create(
        builder, loc, result.getType(), partial, op.getDpsInits()[number],
        {all, all.getMinorSubMap(rank - splits.size())}, over,
        [&](OpBuilder &inner, Location, ValueRange args) {
          IRMapping both;
          Operation *combiner = getCombiner(op, number);
          for (Value operand : combiner->getOperands())
            both.map(operand, operand == op.getRegionOutputArgs()[number]
                                  ? args[1]
                                  : args[0]);
          Operation *clone = inner.clone(*combiner, both);
          linalg::YieldOp::create(inner, loc, clone->getResults());
        });
    sums.push_back(sum->getResult(0));
  }
  op->replaceAllUsesWith(sums);
  op->erase();
}

//===----------------------------------------------------------------------===//
// Pass
//===----------------------------------------------------------------------===//

namespace {
struct SplitColumnSums : fsdp::impl::SplitColumnSumsBase<SplitColumnSums> {
  using SplitColumnSumsBase::SplitColumnSumsBase;

  void runOnOperation() override {
    Block &block = getOperation().getBody().front();
    std::optional<RowSources> rows;
    if (sweeps)
      rows.emplace(getOperation());
    // All are decided before one is applied: that erases ops.
    SmallVector<std::pair<linalg::GenericOp, Splits>> decided;
    for (auto op : block.getOps<linalg::GenericOp>()) {
      if (!isColumnSum(op) || op.hasIndexSemantics())
        continue;
      Splits splits =
          rows && rows->haveRowsOf(op)
              ? chooseRows(
                    op, countChunks(op, kSweptItems * items, kFewestSweptRows))
              : chooseSplit(op, countChunks(op, items, kFewestRows));
      if (!splits.empty())
        decided.push_back({op, std::move(splits)});
    }
    for (auto &[op, splits] : decided)
      applySplits(op, splits);
  }
};
} // namespace
