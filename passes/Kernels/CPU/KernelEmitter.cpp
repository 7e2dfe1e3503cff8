//===- KernelEmitter.cpp - Vector code for loop kernels: loops ------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The loops of a kernel, its reductions and its stores. What happens at one
// point is in KernelValues.cpp.
//
//===----------------------------------------------------------------------===//

#include "KernelEmitter.h"
#include "fsdp/Analysis/Kernels/ComputeOps.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace mlir::fsdp;

//===----------------------------------------------------------------------===//
// Sizes
//===----------------------------------------------------------------------===//

int64_t KernelEmitter::getVectorSize(const KernelLoops &loops) {
  int64_t size =
      loops.getLane() < 0 ? 1 : loops.getLoops()[loops.getLane()].size;
  return std::min<int64_t>(kLanes, llvm::PowerOf2Ceil(size));
}

/// Vectors of one work item, where items run over the lane: enough work to pay
/// for an item, but with reductions one column of vectors at a time.
int64_t KernelEmitter::getBlockVectors() const {
  if (!loops.getStages().empty())
    return 1;
  int64_t whole = std::max<int64_t>(1, getLaneSize() / lanes);
  return std::min<int64_t>(whole, 4096 / lanes);
}

int64_t KernelEmitter::getItemCount() const {
  int64_t count = 1;
  for (auto [i, loop] : llvm::enumerate(loops.getLoops()))
    if (!loop.inner && int(i) != lane)
      count *= loop.size;
  if (!isLaneOuter())
    return count;
  int64_t vectors = getLaneSize() / lanes;
  bool rest = getLaneSize() % lanes != 0;
  return count * (llvm::divideCeil(vectors, getBlockVectors()) + rest);
}

int64_t KernelEmitter::getItemCost() const {
  int64_t points = loops.getInnerSize();
  if (isLaneOuter())
    points *= getBlockVectors() * lanes;
  return points * std::max<size_t>(1, loops.getStages().size());
}

//===----------------------------------------------------------------------===//
// Work items
//===----------------------------------------------------------------------===//

void KernelEmitter::emit(Value begin, Value end) {
  point.assign(loops.getLoops().size(), Value());
  Value one = getIndexConstant(1, outer);
  auto loop = scf::ForOp::create(outer, loc, begin, end, one);
  outer.setInsertionPointToStart(loop.getBody());
  emitItem(loop.getInductionVar());
  outer.setInsertionPointAfter(loop);
}

/// Splits the item's number into the indices of the outer loops.
void KernelEmitter::emitItem(Value item) {
  outerKnown.clear();
  Value rest = item, block;
  auto take = [&](int64_t size, bool last) {
    if (last)
      return rest;
    Value extent = getIndexConstant(size, outer);
    Value index = arith::RemUIOp::create(outer, loc, rest, extent);
    rest = arith::DivUIOp::create(outer, loc, rest, extent);
    return index;
  };
  SmallVector<unsigned> items;
  for (auto [i, loop] : llvm::enumerate(loops.getLoops()))
    if (!loop.inner && int(i) != lane)
      items.push_back(i);
  if (isLaneOuter()) {
    int64_t count = getItemCount();
    for (unsigned i : items)
      count /= loops.getLoops()[i].size;
    block = take(count, items.empty());
  }
  for (unsigned i : llvm::reverse(items))
    point[i] = take(loops.getLoops()[i].size, i == items.front());
  if (block)
    return emitLaneBlock(block);
  emitStages();
  emitItemStores();
}

/// The vectors of one block of lanes; the rest that fills no vector is a block
/// of its own, masked.
void KernelEmitter::emitLaneBlock(Value block) {
  int64_t size = lanes, vectors = getLaneSize() / size,
          rest = getLaneSize() % size, perBlock = getBlockVectors();
  Value step = getIndexConstant(size, outer);
  auto emitRest = [&] {
    emitLanes(getIndexConstant(vectors * size, outer), rest);
  };
  auto emitWhole = [&] {
    if (perBlock == 1)
      return emitLanes(arith::MulIOp::create(outer, loc, block, step), size);
    Value first = arith::MulIOp::create(
        outer, loc, block, getIndexConstant(perBlock * size, outer));
    Value last = arith::AddIOp::create(
        outer, loc, first, getIndexConstant(perBlock * size, outer));
    if (vectors % perBlock != 0)
      last = arith::MinUIOp::create(outer, loc, last,
                                    getIndexConstant(vectors * size, outer));
    auto loop = scf::ForOp::create(outer, loc, first, last, step);
    outer.setInsertionPointToStart(loop.getBody());
    emitLanes(loop.getInductionVar(), size);
    outer.setInsertionPointAfter(loop);
  };
  if (vectors == 0)
    return emitRest();
  if (rest == 0)
    return emitWhole();
  Value isWhole = arith::CmpIOp::create(
      outer, loc, arith::CmpIPredicate::ult, block,
      getIndexConstant(llvm::divideCeil(vectors, perBlock), outer));
  auto branch = scf::IfOp::create(outer, loc, isWhole, /*withElseRegion=*/true);
  outer.setInsertionPointToStart(branch.thenBlock());
  emitWhole();
  outer.setInsertionPointToStart(branch.elseBlock());
  emitRest();
  outer.setInsertionPointAfter(branch);
}

void KernelEmitter::emitLanes(Value first, int64_t count) {
  outerKnown.clear();
  activeLanes = count;
  point[lane] = first;
  emitStages();
  emitItemStores();
  activeLanes = lanes;
}

//===----------------------------------------------------------------------===//
// Stages
//===----------------------------------------------------------------------===//

void KernelEmitter::emitStages() {
  for (unsigned stage = 0, e = loops.getStages().size(); stage != e; ++stage)
    emitStage(stage);
}

void KernelEmitter::emitStage(unsigned stage) {
  currentStage = stage;
  const KernelStage &work = loops.getStages()[stage];
  // Lanes that are reduced over begin at the neutral element and meet the
  // init at the end.
  bool lanesReduce = lane >= 0 && !isLaneOuter();
  SmallVector<Value> accumulators;
  sumZeros.clear();
  for (linalg::GenericOp op : work.reductions)
    for (unsigned i = 0, e = op->getNumResults(); i != e; ++i) {
      Operation *combiner = getCombiner(op, i);
      if (lanesReduce) {
        TypedAttr neutral = *arith::getNeutralElement(combiner);
        Value scalar = arith::ConstantOp::create(outer, loc, neutral);
        accumulators.push_back(toVector(LaneValue{scalar}, outer).value);
      } else {
        accumulators.push_back(getInit(op, i));
      }
      sumZeros.push_back(
          createSumZero(outer, loc, combiner, accumulators.back().getType()));
    }
  emitInner([&] { emitInnerLoops(stage, 0, accumulators); });
  finishReductions(stage, accumulators);
}

/// The first inner loop but the lane from `first` on; the number of loops where
/// there is none.
unsigned KernelEmitter::getInnerLoop(unsigned first) const {
  ArrayRef<KernelLoop> all = loops.getLoops();
  while (first < all.size() && (!all[first].inner || int(first) == lane))
    ++first;
  return first;
}

/// Terms that each sum of the current stage gets one after the other from inner
/// loop `loop`, or from the lane, and from those in it.
int64_t KernelEmitter::getTerms(unsigned loop) const {
  if (loop < loops.getLoops().size())
    return getBlocks(loop).terms;
  if (lane < 0 || isLaneOuter())
    return 1;
  return getBlocks(lane).terms + (getLaneSize() % lanes != 0);
}

SumBlocks KernelEmitter::getBlocks(unsigned loop) const {
  bool isLane = int(loop) == lane;
  int64_t size = loops.getLoops()[loop].size / (isLane ? lanes : 1);
  if (llvm::none_of(sumZeros, [](Value zero) { return bool(zero); }))
    return {};
  return planSumBlocks(size, isLane ? 1 : getTerms(getInnerLoop(loop + 1)));
}

/// One loop per inner loop but the lane, which is innermost.
void KernelEmitter::emitInnerLoops(unsigned stage, unsigned loop,
                                   MutableArrayRef<Value> accumulators) {
  loop = getInnerLoop(loop);
  auto emitLoop = [&](unsigned which, int64_t size, int64_t step,
                      llvm::function_ref<void()> body) {
    emitSumLoop(inner, loc, getIndexConstant(0, inner),
                getIndexConstant(size, inner), step, getBlocks(which), sumZeros,
                accumulators, [&](Value index) {
                  point[which] = index;
                  body();
                });
  };
  if (loop < loops.getLoops().size())
    return emitLoop(loop, loops.getLoops()[loop].size, 1,
                    [&] { emitInnerLoops(stage, loop + 1, accumulators); });
  if (lane < 0 || isLaneOuter())
    return emitPoints(stage, accumulators);

  int64_t size = getLaneSize(), whole = size / lanes * lanes;
  if (whole == lanes) {
    point[lane] = getIndexConstant(0, inner);
    emitPoints(stage, accumulators);
  } else if (whole != 0) {
    emitLoop(lane, whole, lanes, [&] { emitPoints(stage, accumulators); });
  }
  if (whole == size)
    return;
  activeLanes = size - whole;
  point[lane] = getIndexConstant(whole, inner);
  emitPoints(stage, accumulators);
  activeLanes = lanes;
}

/// Everything a stage does at the current point(s).
void KernelEmitter::emitPoints(unsigned stage,
                               MutableArrayRef<Value> accumulators) {
  innerKnown.clear();
  const KernelStage &work = loops.getStages()[stage];
  for (linalg::GenericOp op : work.reductions) {
    accumulate(op, accumulators.take_front(op->getNumResults()));
    accumulators = accumulators.drop_front(op->getNumResults());
  }
  storeResults(work.stores, /*atInner=*/true);
  storeScratch(stage);
}

/// The lanes of `vector`, whose number is a power of two, by a tree of halves.
Value KernelEmitter::reduceLanes(Value vector, vector::CombiningKind kind) {
  for (int64_t half = lanes / 2; half != 0; half /= 2) {
    auto slice = [&](int64_t first) -> Value {
      return vector::ExtractStridedSliceOp::create(outer, loc, vector, {first},
                                                   {half}, {1});
    };
    Value low = slice(0), high = slice(half);
    vector = vector::makeArithReduction(outer, loc, kind, low, high);
  }
  return vector::ExtractOp::create(outer, loc, vector, 0);
}

void KernelEmitter::finishReductions(unsigned stage,
                                     ArrayRef<Value> accumulators) {
  bool lanesReduce = lane >= 0 && !isLaneOuter();
  unsigned next = 0;
  for (linalg::GenericOp op : loops.getStages()[stage].reductions)
    for (unsigned i = 0, e = op->getNumResults(); i != e; ++i) {
      Value value = accumulators[next++];
      if (!lanesReduce) {
        outerKnown.results[op->getResult(i)] = {
            value, isa<VectorType>(value.getType())};
        continue;
      }
      Operation *combiner = getCombiner(op, i);
      vector::CombiningKind kind = getCombiningKind(combiner);
      value = reduceLanes(value, kind);
      if (!beginsAtNeutral(loops, op, i))
        value =
            vector::makeArithReduction(outer, loc, kind, value, getInit(op, i));
      outerKnown.results[op->getResult(i)] = {value};
    }
}

void KernelEmitter::emitItemStores() {
  storeResults(loops.getItemStores(), /*atInner=*/false);
}
