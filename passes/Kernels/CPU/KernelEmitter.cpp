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
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlir::fsdp;

//===----------------------------------------------------------------------===//
// Sizes
//===----------------------------------------------------------------------===//

int64_t KernelEmitter::getLaneSize() const {
  return loops.getLane() < 0 ? 1 : loops.getLoops()[loops.getLane()].size;
}

/// Points computed at once along the lane.
int64_t KernelEmitter::getVectorSize() const {
  return std::min<int64_t>(kLanes, llvm::PowerOf2Ceil(getLaneSize()));
}

/// Vectors of one work item, where items run over the lane: enough work to pay
/// for an item, but with reductions one column of vectors at a time.
int64_t KernelEmitter::getBlockVectors() const {
  if (!loops.getStages().empty())
    return 1;
  int64_t whole = std::max<int64_t>(1, getLaneSize() / getVectorSize());
  return std::min<int64_t>(whole, 4096 / getVectorSize());
}

int64_t KernelEmitter::getItemCount() const {
  int64_t count = 1;
  for (auto [i, loop] : llvm::enumerate(loops.getLoops()))
    if (!loop.inner && int(i) != loops.getLane())
      count *= loop.size;
  if (!loops.isLaneOuter())
    return count;
  int64_t vectors = getLaneSize() / getVectorSize();
  bool rest = getLaneSize() % getVectorSize() != 0;
  return count * (llvm::divideCeil(vectors, getBlockVectors()) + rest);
}

int64_t KernelEmitter::getItemCost() const {
  int64_t points = loops.getInnerSize();
  if (loops.isLaneOuter())
    points *= getBlockVectors() * getVectorSize();
  return points * std::max<size_t>(1, loops.getStages().size());
}

int64_t KernelEmitter::getScratchBytes() const {
  int64_t bytes = 0;
  for (OpResult result : loops.getScratch())
    bytes += getRowBytes(result);
  return bytes;
}

//===----------------------------------------------------------------------===//
// Work items
//===----------------------------------------------------------------------===//

void KernelEmitter::emit(Value begin, Value end) {
  point.assign(loops.getLoops().size(), Value());
  lanes = activeLanes = getVectorSize();
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
    if (!loop.inner && int(i) != loops.getLane())
      items.push_back(i);
  if (loops.isLaneOuter()) {
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
  int64_t size = getVectorSize(), vectors = getLaneSize() / size,
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

void KernelEmitter::emitLanes(Value lane, int64_t count) {
  outerKnown.clear();
  activeLanes = count;
  point[loops.getLane()] = lane;
  emitStages();
  emitItemStores();
  activeLanes = lanes;
}

//===----------------------------------------------------------------------===//
// Stages
//===----------------------------------------------------------------------===//

static vector::CombiningKind getKind(Operation *combiner) {
  using vector::CombiningKind;
  return llvm::TypeSwitch<Operation *, CombiningKind>(combiner)
      .Case<arith::AddFOp, arith::AddIOp>(
          [](auto) { return CombiningKind::ADD; })
      .Case<arith::MulFOp, arith::MulIOp>(
          [](auto) { return CombiningKind::MUL; })
      .Case<arith::MaximumFOp>([](auto) { return CombiningKind::MAXIMUMF; })
      .Case<arith::MaxNumFOp>([](auto) { return CombiningKind::MAXNUMF; })
      .Case<arith::MinimumFOp>([](auto) { return CombiningKind::MINIMUMF; })
      .Case<arith::MinNumFOp>([](auto) { return CombiningKind::MINNUMF; })
      .Case<arith::MaxSIOp>([](auto) { return CombiningKind::MAXSI; })
      .Case<arith::MaxUIOp>([](auto) { return CombiningKind::MAXUI; })
      .Case<arith::MinSIOp>([](auto) { return CombiningKind::MINSI; })
      .Case<arith::MinUIOp>([](auto) { return CombiningKind::MINUI; })
      .Case<arith::AndIOp>([](auto) { return CombiningKind::AND; })
      .Case<arith::OrIOp>([](auto) { return CombiningKind::OR; })
      .Case<arith::XOrIOp>([](auto) { return CombiningKind::XOR; });
}

/// What a reduction begins with in the original program, at this work item.
Value KernelEmitter::getInit(linalg::GenericOp op, unsigned i) {
  OpOperand &init = *op.getDpsInitOperand(i);
  LaneValue value = getOperand(op, init, /*atInner=*/false);
  if (loops.isLaneOuter())
    value = toVector(value, outer);
  return value.value;
}

void KernelEmitter::emitStages() {
  for (unsigned stage = 0, e = loops.getStages().size(); stage != e; ++stage)
    emitStage(stage);
}

void KernelEmitter::emitStage(unsigned stage) {
  currentStage = stage;
  const KernelStage &work = loops.getStages()[stage];
  // Lanes that are reduced over begin at the neutral element and meet the
  // init at the end.
  bool lanesReduce = loops.getLane() >= 0 && !loops.isLaneOuter();
  SmallVector<Value> accumulators;
  for (linalg::GenericOp op : work.reductions)
    for (unsigned i = 0, e = op->getNumResults(); i != e; ++i) {
      if (!lanesReduce) {
        accumulators.push_back(getInit(op, i));
        continue;
      }
      Operation *combiner = getCombiner(op, i);
      TypedAttr neutral = *arith::getNeutralElement(combiner);
      Value scalar = arith::ConstantOp::create(outer, loc, neutral);
      accumulators.push_back(toVector(LaneValue{scalar}, outer).value);
    }
  // Values of the work item that turn out to be needed go before the loops.
  Operation *marker = getIndexConstant(0, outer).getDefiningOp();
  inner.setInsertionPointAfter(marker);
  outer.setInsertionPoint(marker);
  emitInnerLoops(stage, 0, accumulators);
  outer.restoreInsertionPoint(inner.saveInsertionPoint());
  finishReductions(stage, accumulators);
}

/// One loop per inner loop but the lane, which is innermost.
void KernelEmitter::emitInnerLoops(unsigned stage, unsigned loop,
                                   MutableArrayRef<Value> accumulators) {
  ArrayRef<KernelLoop> all = loops.getLoops();
  while (loop < all.size() &&
         (!all[loop].inner || int(loop) == loops.getLane()))
    ++loop;
  auto emitLoop = [&](unsigned which, int64_t size, int64_t step,
                      llvm::function_ref<void()> body) {
    auto op = scf::ForOp::create(inner, loc, getIndexConstant(0, inner),
                                 getIndexConstant(size, inner),
                                 getIndexConstant(step, inner), accumulators);
    inner.setInsertionPointToStart(op.getBody());
    point[which] = op.getInductionVar();
    llvm::copy(op.getRegionIterArgs(), accumulators.begin());
    body();
    if (!accumulators.empty())
      scf::YieldOp::create(inner, loc, accumulators);
    llvm::copy(op.getResults(), accumulators.begin());
    inner.setInsertionPointAfter(op);
  };
  if (loop < all.size())
    return emitLoop(loop, all[loop].size, 1,
                    [&] { emitInnerLoops(stage, loop + 1, accumulators); });
  if (loops.getLane() < 0 || loops.isLaneOuter())
    return emitPoints(stage, accumulators);

  int64_t size = getLaneSize(), whole = size / lanes * lanes;
  if (whole == lanes) {
    point[loops.getLane()] = getIndexConstant(0, inner);
    emitPoints(stage, accumulators);
  } else if (whole != 0) {
    emitLoop(loops.getLane(), whole, lanes,
             [&] { emitPoints(stage, accumulators); });
  }
  if (whole == size)
    return;
  activeLanes = size - whole;
  point[loops.getLane()] = getIndexConstant(whole, inner);
  emitPoints(stage, accumulators);
  activeLanes = lanes;
}

/// Everything a stage does at the current point(s).
void KernelEmitter::emitPoints(unsigned stage,
                               MutableArrayRef<Value> accumulators) {
  innerKnown.clear();
  const KernelStage &work = loops.getStages()[stage];
  bool masked = activeLanes != lanes && !loops.isLaneOuter();
  unsigned next = 0;
  for (linalg::GenericOp op : work.reductions) {
    SmallVector<LaneValue> args;
    for (OpOperand *operand : op.getDpsInputOperands())
      args.push_back(op.payloadUsesValueFromOperand(operand)
                         ? getOperand(op, *operand, /*atInner=*/true)
                         : LaneValue());
    MutableArrayRef<Value> current =
        accumulators.slice(next, op->getNumResults());
    next += op->getNumResults();
    for (Value accumulator : current)
      args.push_back({accumulator, isa<VectorType>(accumulator.getType())});
    SmallVector<LaneValue> results = evaluateBody(op, args, /*atInner=*/true);
    for (auto [accumulator, result] : llvm::zip(current, results)) {
      Value value = isa<VectorType>(accumulator.getType())
                        ? toVector(result, inner).value
                        : result.value;
      if (masked)
        value = arith::SelectOp::create(inner, loc, getMask(inner), value,
                                        accumulator);
      accumulator = value;
    }
  }
  storeResults(work.stores, /*atInner=*/true);
  for (OpResult result : loops.getScratch())
    if (loops.getAvailableFrom(result) == stage + 1)
      storeAt(getScratchRow(result, inner), getScratchAddress(inner),
              loops.getLane() < 0 ? 0 : 1, getResult(result, /*atInner=*/true),
              inner);
}

void KernelEmitter::finishReductions(unsigned stage,
                                     ArrayRef<Value> accumulators) {
  bool lanesReduce = loops.getLane() >= 0 && !loops.isLaneOuter();
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
      vector::CombiningKind kind = getKind(combiner);
      // A tree over the lanes: the one place where the order of additions is
      // left to the code generator, which sees the same vector every time.
      value = vector::ReductionOp::create(outer, loc, kind, value,
                                          arith::FastMathFlags::reassoc);
      TypedAttr init = loops.getSplat(op.getDpsInits()[i]);
      bool neutral = init && (init == *arith::getNeutralElement(combiner) ||
                              (kind == vector::CombiningKind::ADD &&
                               (matchPattern(init, m_AnyZeroFloat()) ||
                                matchPattern(init, m_Zero()))));
      if (!neutral)
        value =
            vector::makeArithReduction(outer, loc, kind, value, getInit(op, i));
      outerKnown.results[op->getResult(i)] = {value};
    }
}

void KernelEmitter::emitItemStores() {
  storeResults(loops.getItemStores(), /*atInner=*/false);
}

/// All values first: a result may lie where another one still reads.
void KernelEmitter::storeResults(ArrayRef<OpResult> results, bool atInner) {
  SmallVector<LaneValue> values;
  for (OpResult result : results)
    values.push_back(getResult(result, atInner));
  for (auto [result, value] : llvm::zip(results, values))
    store(*loops.getWrite(result), value, atInner ? inner : outer);
}
