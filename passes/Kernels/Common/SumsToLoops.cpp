//===- SumsToLoops.cpp - Loops of long sums over buffers ------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Convolutions, sums over windows, products that no BLAS does, and sums whose
// bodies no loop kernel takes: an op that adds up more floats than a block has,
// or a number of them that is not static, becomes an scf.parallel over its
// results around loops over its terms, which sum in blocks, in registers.
// Results of it that are no float sums go through all iterations in their
// order. Shorter sums are left to upstream's lowering.
//
//===----------------------------------------------------------------------===//

#include "Kernels/Common/SumBlocks.h"

#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Arith/Utils/Utils.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace mlir::fsdp;

/// What a loop of unknown size is cut for, 2^25: four levels of blocks. Of n
/// more iterations, the outermost loop adds up n / 2^20 sums.
constexpr int64_t kUnknownSize =
    kSumBlock * kSumBlock * kSumBlock * kSumBlock * kSumBlock;

//===----------------------------------------------------------------------===//
// Analysis
//===----------------------------------------------------------------------===//

/// Whether @op, which reads values of @sums, adds a term to one of them.
static bool addsTerm(Operation &op, const llvm::SmallDenseSet<Value> &sums) {
  auto isSum = [&](unsigned i) { return sums.contains(op.getOperand(i)); };
  if (isa<arith::AddFOp>(op))
    return isSum(0) != isSum(1);
  if (isa<arith::SubFOp>(op))
    return isSum(0) && !isSum(1);
  if (isa<math::FmaOp>(op))
    return !isSum(0) && !isSum(1);
  // A term or none.
  return isa<arith::SelectOp>(op) && isSum(1) && isSum(2);
}

/// Whether result @number of @op is what it was before and terms that do not
/// depend on that, which no other result does either.
static bool isSumOfFloats(linalg::LinalgOp op, unsigned number) {
  BlockArgument partial = op.getRegionOutputArgs()[number];
  if (!isa<FloatType>(partial.getType()))
    return false;
  llvm::SmallDenseSet<Value> sums = {partial};
  for (Operation &inside : op.getBlock()->without_terminator()) {
    bool readsSum = false;
    inside.walk([&](Operation *reader) {
      readsSum |= llvm::any_of(reader->getOperands(), [&](Value operand) {
        return sums.contains(operand);
      });
    });
    if (!readsSum)
      continue;
    if (!addsTerm(inside, sums))
      return false;
    sums.insert(inside.getResult(0));
  }
  for (auto [i, value] :
       llvm::enumerate(op.getBlock()->getTerminator()->getOperands()))
    if (sums.contains(value) != (i == number))
      return false;
  return true;
}

/// Whether each init of @op is read and written at one place per point of the
/// parallel loops, which no other point has: Lowering loads it before the
/// reduction loops, and stores it after them.
static bool areResultsOfParallelLoops(linalg::LinalgOp op) {
  SmallVector<utils::IteratorType> iterators = op.getIteratorTypesArray();
  return llvm::all_of(op.getDpsInitsMutable(), [&](OpOperand &init) {
    AffineMap map = op.getMatchingIndexingMap(&init);
    return map.isProjectedPermutation() &&
           map.getNumResults() == op.getNumParallelLoops() &&
           llvm::all_of(map.getResults(), [&](AffineExpr expr) {
             return linalg::isParallelIterator(
                 iterators[cast<AffineDimExpr>(expr).getPosition()]);
           });
  });
}

/// Whether @op has so many terms that they are not added one after the other,
/// and its loops may hold results until all are in.
static bool isLongSum(linalg::LinalgOp op) {
  if (!op.hasPureBufferSemantics() || op.getNumReductionLoops() == 0 ||
      !areResultsOfParallelLoops(op))
    return false;
  int64_t terms = 1;
  for (auto [size, iterator] :
       llvm::zip_equal(op.getStaticLoopRanges(), op.getIteratorTypesArray())) {
    if (!linalg::isReductionIterator(iterator))
      continue;
    if (size == 0)
      return false;
    // Saturates.
    terms = ShapedType::isDynamic(size) || terms > kSumBlock ? kSumBlock + 1
                                                             : terms * size;
  }
  if (terms <= kSumBlock ||
      llvm::none_of(llvm::seq<unsigned>(0, op.getNumDpsInits()),
                    [&](unsigned i) { return isSumOfFloats(op, i); }))
    return false;
  // Nothing but its own result is where a result is stored.
  return llvm::all_of(op.getDpsInits(), [&](Value init) {
    return isa<MemRefType>(init.getType()) &&
           !llvm::is_contained(op.getDpsInputs(), init);
  });
}

//===----------------------------------------------------------------------===//
// Application
//===----------------------------------------------------------------------===//

namespace {
class Lowering {
public:
  explicit Lowering(linalg::LinalgOp op)
      : op(op), builder(op), loc(op.getLoc()),
        sizes(op.createLoopRanges(builder, loc)),
        staticSizes(op.getStaticLoopRanges()), point(sizes.size()) {
    for (auto [i, iterator] : llvm::enumerate(op.getIteratorTypesArray()))
      (linalg::isReductionIterator(iterator) ? inner : outer).push_back(i);
  }

  void apply() {
    zero = arith::ConstantIndexOp::create(builder, loc, 0);
    if (outer.empty()) {
      emitResults();
    } else {
      SmallVector<Value> first(outer.size(), zero), end, step;
      for (unsigned loop : outer) {
        end.push_back(getSize(loop));
        step.push_back(arith::ConstantIndexOp::create(builder, loc, 1));
      }
      auto parallel = scf::ParallelOp::create(builder, loc, first, end, step);
      OpBuilder::InsertionGuard guard(builder);
      builder.setInsertionPointToStart(parallel.getBody());
      for (auto [loop, index] :
           llvm::zip_equal(outer, parallel.getInductionVars()))
        point[loop] = index;
      emitResults();
    }
    op->erase();
  }

private:
  Value getSize(unsigned loop) {
    return getValueOrCreateConstantIndexOp(builder, loc, sizes[loop].size);
  }

  SmallVector<Value> getIndices(AffineMap map) {
    SmallVector<Value> indices;
    for (AffineExpr expr : map.getResults())
      indices.push_back(affine::AffineApplyOp::create(
          builder, loc, AffineMap::get(map.getNumDims(), 0, expr), point));
    return indices;
  }

  /// Where the current point of outer loops has its result in `init`
  /// (areResultsOfParallelLoops).
  SmallVector<Value> getResultIndices(OpOperand &init) {
    return llvm::map_to_vector(
        op.getMatchingIndexingMap(&init).getResults(), [&](AffineExpr expr) {
          return point[cast<AffineDimExpr>(expr).getPosition()];
        });
  }

  /// The results of the current point of outer loops.
  void emitResults() {
    SmallVector<Value> partials, zeros;
    for (auto [i, init] : llvm::enumerate(op.getDpsInitsMutable())) {
      partials.push_back(memref::LoadOp::create(builder, loc, init.get(),
                                                getResultIndices(init)));
      zeros.push_back(isSumOfFloats(op, i)
                          ? createZero(builder, loc, partials.back().getType())
                          : Value());
    }
    emitTerms(inner, zeros, partials);
    for (auto [init, value] :
         llvm::zip_equal(op.getDpsInitsMutable(), partials))
      memref::StoreOp::create(builder, loc, value, init.get(),
                              getResultIndices(init));
  }

  SumBlocks getBlocks(ArrayRef<unsigned> loops) const {
    int64_t size = staticSizes[loops.front()];
    ArrayRef<unsigned> rest = loops.drop_front();
    return planSumBlocks(ShapedType::isDynamic(size) ? kUnknownSize : size,
                         rest.empty() ? 1 : getBlocks(rest).terms);
  }

  void emitTerms(ArrayRef<unsigned> loops, ArrayRef<Value> zeros,
                 MutableArrayRef<Value> partials) {
    if (loops.empty())
      return emitBody(partials);
    emitSumLoop(builder, loc, zero, getSize(loops.front()), /*step=*/1,
                getBlocks(loops), zeros, partials, [&](Value index) {
                  point[loops.front()] = index;
                  emitTerms(loops.drop_front(), zeros, partials);
                });
  }

  void emitBody(MutableArrayRef<Value> partials) {
    Block *body = op.getBlock();
    IRMapping mapping;
    for (OpOperand *input : op.getDpsInputOperands()) {
      BlockArgument arg = op.getMatchingBlockArgument(input);
      if (arg.use_empty())
        continue;
      Value value = input->get();
      if (isa<MemRefType>(value.getType()))
        value = memref::LoadOp::create(
            builder, loc, value, getIndices(op.getMatchingIndexingMap(input)));
      mapping.map(arg, value);
    }
    for (auto [arg, partial] :
         llvm::zip_equal(op.getRegionOutputArgs(), partials))
      mapping.map(arg, partial);
    body->walk([&](linalg::IndexOp index) {
      mapping.map(index.getResult(), point[index.getDim()]);
    });
    for (Operation &inside : body->without_terminator())
      if (!isa<linalg::IndexOp>(inside))
        builder.clone(inside, mapping);
    for (auto [partial, result] :
         llvm::zip_equal(partials, body->getTerminator()->getOperands()))
      partial = mapping.lookupOrDefault(result);
  }

  linalg::LinalgOp op;
  OpBuilder builder;
  Location loc;
  SmallVector<Range> sizes;
  SmallVector<int64_t> staticSizes;
  SmallVector<unsigned> outer, inner;
  /// An index per loop.
  SmallVector<Value> point;
  Value zero;
};
} // namespace

void fsdp::lowerLongSums(Operation *root) {
  SmallVector<linalg::LinalgOp> sums;
  root->walk([&](linalg::LinalgOp op) {
    if (isLongSum(op))
      sums.push_back(op);
  });
  for (linalg::LinalgOp op : sums)
    Lowering(op).apply();
}
