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
//===----------------------------------------------------------------------===//

#include "fsdp/Analysis/Kernels/ComputeOps.h"
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

//===----------------------------------------------------------------------===//
// Analysis
//===----------------------------------------------------------------------===//

namespace {
/// Reduction loop `loop` becomes `chunks` loops.
struct Split {
  unsigned loop;
  int64_t chunks;
};
} // namespace

/// Whether neighbouring elements of the operand that walks all loops of @op
/// belong to different results.
static bool reducesColumns(linalg::GenericOp op) {
  SmallVector<utils::IteratorType> iterators = op.getIteratorTypesArray();
  for (OpOperand *operand : op.getDpsInputOperands()) {
    AffineMap map = op.getMatchingIndexingMap(operand);
    if (map.getNumResults() != op.getNumLoops())
      continue;
    auto last = dyn_cast<AffineDimExpr>(map.getResults().back());
    return last && linalg::isParallelIterator(iterators[last.getPosition()]);
  }
  return false;
}

/// Of @op's reduction loops the one that divides into most equal chunks: no
/// more than it takes to have @items sums, and of no fewer rows than
/// kFewestRows. nullopt where @op has @items results, or fewer elements than
/// kLargeSum.
static std::optional<Split> chooseSplit(linalg::GenericOp op, int64_t items) {
  if (getComputeKind(op) != ComputeKind::Reduction || !reducesColumns(op) ||
      op.hasIndexSemantics())
    return std::nullopt;
  SmallVector<utils::IteratorType> iterators = op.getIteratorTypesArray();
  SmallVector<int64_t> sizes = op.getStaticLoopRanges();
  int64_t results = 1, rows = 1;
  for (auto [size, iterator] : llvm::zip(sizes, iterators))
    (linalg::isParallelIterator(iterator) ? results : rows) *= size;
  if (results >= items || results * rows < kLargeSum)
    return std::nullopt;
  int64_t most =
      std::min<int64_t>(llvm::divideCeil(items, results), rows / kFewestRows);
  std::optional<Split> best;
  for (auto [loop, size] : llvm::enumerate(sizes)) {
    if (linalg::isParallelIterator(iterators[loop]))
      continue;
    int64_t chunks = std::min(most, size);
    while (chunks > 1 && size % chunks != 0)
      --chunks;
    if (chunks > (best ? best->chunks : 1))
      best = Split{unsigned(loop), chunks};
  }
  return best;
}

//===----------------------------------------------------------------------===//
// Application
//===----------------------------------------------------------------------===//

/// @expr, a loop or a constant, with a loop inserted after split.loop.
static AffineExpr shift(AffineExpr expr, Split split) {
  auto loop = dyn_cast<AffineDimExpr>(expr);
  if (!loop || loop.getPosition() <= split.loop)
    return expr;
  return getAffineDimExpr(loop.getPosition() + 1, expr.getContext());
}

/// @tensor with the dimension that loop split.loop walks in @map split in two,
/// [chunks, rows of a chunk], and the map of that: the loop of chunks takes the
/// place of split.loop, and that of their rows follows it.
static std::pair<Value, AffineMap> splitOperand(OpBuilder &builder,
                                                Location loc, Value tensor,
                                                AffineMap map, Split split) {
  SmallVector<AffineExpr> exprs;
  SmallVector<ReassociationIndices> groups;
  SmallVector<int64_t> shape;
  auto type = cast<RankedTensorType>(tensor.getType());
  bool isSplit = false;
  auto add = [&](AffineExpr expr, int64_t size) {
    groups.back().push_back(shape.size());
    exprs.push_back(expr);
    shape.push_back(size);
  };
  for (auto [expr, size] : llvm::zip(map.getResults(), type.getShape())) {
    groups.emplace_back();
    if (expr == builder.getAffineDimExpr(split.loop)) {
      isSplit = true;
      add(expr, split.chunks);
      add(builder.getAffineDimExpr(split.loop + 1), size / split.chunks);
    } else {
      add(shift(expr, split), size);
    }
  }
  AffineMap wider =
      AffineMap::get(map.getNumDims() + 1, 0, exprs, builder.getContext());
  if (!isSplit)
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

static void applySplit(linalg::GenericOp op, Split split) {
  OpBuilder builder(op);
  Location loc = op.getLoc();
  unsigned loops = op.getNumLoops();
  SmallVector<Value> inputs, inits;
  SmallVector<AffineMap> maps;
  for (OpOperand *operand : op.getDpsInputOperands()) {
    auto [tensor, map] =
        splitOperand(builder, loc, operand->get(),
                     op.getMatchingIndexingMap(operand), split);
    inputs.push_back(tensor);
    maps.push_back(map);
  }
  // Results of chunks have the number of the chunk as first dimension.
  for (OpResult result : op->getResults()) {
    auto type = cast<RankedTensorType>(result.getType());
    SmallVector<int64_t> shape(type.getShape());
    shape.insert(shape.begin(), split.chunks);
    SmallVector<AffineExpr> exprs = {builder.getAffineDimExpr(split.loop)};
    for (AffineExpr expr : op.getIndexingMapMatchingResult(result).getResults())
      exprs.push_back(shift(expr, split));
    maps.push_back(AffineMap::get(loops + 1, 0, exprs, op.getContext()));
    inits.push_back(createNeutral(
        builder, loc, RankedTensorType::get(shape, type.getElementType()),
        getCombiner(op, result.getResultNumber())));
  }
  SmallVector<utils::IteratorType> iterators = op.getIteratorTypesArray();
  iterators.insert(iterators.begin() + split.loop,
                   utils::IteratorType::parallel);
  auto chunks = linalg::GenericOp::create(builder, loc, TypeRange(inits),
                                          inputs, inits, maps, iterators);
  IRMapping mapping;
  op.getRegion().cloneInto(&chunks.getRegion(), mapping);

  SmallVector<Value> sums;
  for (auto [result, partial] :
       llvm::zip(op->getResults(), chunks->getResults())) {
    unsigned number = result.getResultNumber();
    int64_t rank = cast<RankedTensorType>(result.getType()).getRank();
    AffineMap all = builder.getMultiDimIdentityMap(rank + 1);
    SmallVector<utils::IteratorType> over(rank + 1,
                                          utils::IteratorType::parallel);
    over.front() = utils::IteratorType::reduction;
    auto sum = linalg::GenericOp::create(
        builder, loc, result.getType(), partial, op.getDpsInits()[number],
        {all, all.dropResult(0)}, over,
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
    for (auto op :
         llvm::make_early_inc_range(block.getOps<linalg::GenericOp>()))
      if (std::optional<Split> split = chooseSplit(op, items))
        applySplit(op, *split);
  }
};
} // namespace
