//===- SimtEmitter.cpp - Code with a value per thread ---------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "SimtEmitter.h"
#include "BlockReduction.h"
#include "CudaKernels.h"
#include "fsdp/Analysis/Kernels/ComputeOps.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace mlir::fsdp;

//===----------------------------------------------------------------------===//
// Shape
//===----------------------------------------------------------------------===//

/// Threads of a block that computes several items.
constexpr int64_t kBlockThreads = 128, kColumnThreads = 256;

/// Inner points that a thread computes before more threads pay: their results
/// take a barrier to meet.
constexpr int64_t kPointsPerThread = 4;

/// So many columns give a device's threads enough to do without sharing any.
constexpr int64_t kManyColumns = 65536;

static int64_t getItemCount(const KernelLoops &loops) {
  int64_t count = 1;
  for (const KernelLoop &loop : loops.getLoops())
    if (!loop.inner)
      count *= loop.size;
  return count;
}

/// Slots of one result that is reduced.
static int64_t getSlotsPerResult(const SimtShape &shape) {
  if (shape.threadsPerItem == 1)
    return 0;
  return shape.areColumns ? shape.getBlock()
                          : getSlotsPerReduction(shape.threadsPerItem);
}

int64_t fsdp::getSlotCount(const KernelLoops &loops, const SimtShape &shape) {
  int64_t results = 0;
  for (const KernelStage &stage : loops.getStages())
    for (linalg::GenericOp op : stage.reductions)
      results += op->getNumResults();
  // Columns have a barrier on either side of their slots.
  return shape.areColumns && results != 0 ? getSlotsPerResult(shape)
                                          : results * getSlotsPerResult(shape);
}

/// Rows: neighbouring threads read neighbouring points.
static SimtShape chooseRows(const KernelLoops &loops, int64_t items) {
  int64_t threads = llvm::PowerOf2Ceil(
      llvm::divideCeil(loops.getInnerSize(), kPointsPerThread));
  threads = std::clamp<int64_t>(threads, kWarpThreads, 1024);
  int64_t scratch = getScratchBytes(loops, /*lanes=*/1);
  SimtShape shape{items, /*itemsPerBlock=*/1, threads, /*areColumns=*/false,
                  /*shared=*/0};
  if (scratch == 0 && threads == kWarpThreads)
    shape.itemsPerBlock = kBlockThreads / kWarpThreads;
  int64_t slots = getSlotCount(loops, shape) * sizeof(int64_t);
  if (scratch + slots <= kMostShared)
    shape.shared = scratch;
  return shape;
}

/// Columns: neighbouring threads read neighbouring items. Where there are few,
/// several warps share them.
static SimtShape chooseColumns(const KernelLoops &loops, int64_t items) {
  SimtShape shape{items, kBlockThreads, /*threadsPerItem=*/1,
                  /*areColumns=*/true, /*shared=*/0};
  int64_t inner = loops.getInnerSize();
  if (inner < kWarpThreads || items >= kManyColumns)
    return shape;
  shape.itemsPerBlock =
      std::min<int64_t>(kWarpThreads, llvm::PowerOf2Ceil(items));
  shape.threadsPerItem = std::min<int64_t>(
      kColumnThreads / shape.itemsPerBlock,
      llvm::PowerOf2Ceil(llvm::divideCeil(inner, kPointsPerThread)));
  return shape;
}

SimtShape fsdp::chooseSimtShape(const KernelLoops &loops) {
  int64_t items = getItemCount(loops);
  // Rows too short for a warp are read together by neighbouring threads, more
  // or less.
  if (loops.isLaneOuter() || loops.getInnerSize() < kWarpThreads)
    return chooseColumns(loops, items);
  return chooseRows(loops, items);
}

//===----------------------------------------------------------------------===//
// Items
//===----------------------------------------------------------------------===//

SmallVector<unsigned> SimtEmitter::getLoopOrder(bool isInner) const {
  SmallVector<unsigned> order;
  for (auto [i, loop] : llvm::enumerate(loops.getLoops()))
    if (loop.inner == isInner && int(i) != loops.getLane())
      order.push_back(i);
  if (loops.getLane() >= 0 &&
      loops.getLoops()[loops.getLane()].inner == isInner)
    order.push_back(loops.getLane());
  return order;
}

void SimtEmitter::setPoint(ArrayRef<unsigned> order, Value number,
                           OpBuilder &builder) {
  for (unsigned loop : llvm::reverse(order)) {
    if (loop == order.front()) {
      point[loop] = number;
      return;
    }
    Value size = getIndexConstant(loops.getLoops()[loop].size, builder);
    point[loop] = arith::RemUIOp::create(builder, loc, number, size);
    number = arith::DivUIOp::create(builder, loc, number, size);
  }
}

void SimtEmitter::emitIf(OpBuilder &builder, Value condition,
                         llvm::function_ref<void()> body) {
  if (!condition)
    return body();
  auto branch =
      scf::IfOp::create(builder, loc, condition, /*withElseRegion=*/false);
  builder.setInsertionPointToStart(branch.thenBlock());
  body();
  builder.setInsertionPointAfter(branch);
}

/// The item of the thread. Threads beyond the last item take its values, and
/// store nothing: they meet the others at barriers.
void SimtEmitter::setItem() {
  thread = gpu::ThreadIdOp::create(outer, loc, gpu::Dimension::x);
  Value item = gpu::BlockIdOp::create(outer, loc, gpu::Dimension::x);
  if (shape.itemsPerBlock == 1) {
    threadInItem = thread;
  } else {
    Value inBlock = thread;
    if (shape.threadsPerItem != 1) {
      Value size = getIndexConstant(
          shape.areColumns ? shape.itemsPerBlock : shape.threadsPerItem, outer);
      threadInItem = arith::DivUIOp::create(outer, loc, thread, size);
      inBlock = arith::RemUIOp::create(outer, loc, thread, size);
      if (!shape.areColumns)
        std::swap(threadInItem, inBlock);
    }
    item = arith::MulIOp::create(outer, loc, item,
                                 getIndexConstant(shape.itemsPerBlock, outer));
    item = arith::AddIOp::create(outer, loc, item, inBlock);
  }
  if (shape.items % shape.itemsPerBlock != 0) {
    isItem = arith::CmpIOp::create(outer, loc, arith::CmpIPredicate::ult, item,
                                   getIndexConstant(shape.items, outer));
    if (shape.threadsPerItem != 1)
      item = arith::MinUIOp::create(outer, loc, item,
                                    getIndexConstant(shape.items - 1, outer));
  }
  setPoint(getLoopOrder(/*isInner=*/false), item, outer);
}

void SimtEmitter::emit() {
  point.assign(loops.getLoops().size(), Value());
  setItem();
  if (shape.threadsPerItem == 1)
    return emitIf(outer, std::exchange(isItem, Value()), [&] { emitStages(); });
  emitStages();
}

/// What a stage or the item's results write may lie where other threads read in
/// the stage before: no thread goes on until all are done with it.
void SimtEmitter::emitStages() {
  ArrayRef<KernelStage> stages = loops.getStages();
  for (auto [i, stage] : llvm::enumerate(stages)) {
    emitStage(i);
    bool isLast = i + 1 == stages.size() && loops.getItemStores().empty();
    bool hasBarrier =
        !stage.reductions.empty() && getSlotsPerResult(shape) != 0;
    if (shape.threadsPerItem != 1 && !isLast && !hasBarrier)
      gpu::BarrierOp::create(outer, loc);
  }
  emitItemStores();
}

/// The first thread of an item stores its results.
void SimtEmitter::emitItemStores() {
  if (loops.getItemStores().empty())
    return;
  Value isFirst;
  if (shape.threadsPerItem != 1)
    isFirst = arith::CmpIOp::create(outer, loc, arith::CmpIPredicate::eq,
                                    threadInItem, getIndexConstant(0, outer));
  if (isFirst && isItem)
    isFirst = arith::AndIOp::create(outer, loc, isFirst, isItem);
  emitIf(outer, isFirst,
         [&] { storeResults(loops.getItemStores(), /*atInner=*/false); });
}

/// Values come before the branch: later ops outside of it use them again.
void SimtEmitter::storePoint(ArrayRef<OpResult> results) {
  if (results.empty())
    return;
  for (OpResult result : results)
    (void)getResult(result, /*atInner=*/true);
  emitIf(inner, isItem, [&] { storeResults(results, /*atInner=*/true); });
}

//===----------------------------------------------------------------------===//
// Stages
//===----------------------------------------------------------------------===//

/// The init of a serial sum; the neutral element of one that threads share,
/// which meets the init at the end.
SmallVector<Value> SimtEmitter::getFirstPartials(unsigned stage) {
  SmallVector<Value> partials;
  for (linalg::GenericOp op : loops.getStages()[stage].reductions)
    for (unsigned i = 0, e = op->getNumResults(); i != e; ++i) {
      if (shape.threadsPerItem == 1) {
        partials.push_back(getInit(op, i));
        continue;
      }
      TypedAttr neutral = *arith::getNeutralElement(getCombiner(op, i));
      partials.push_back(arith::ConstantOp::create(outer, loc, neutral));
    }
  return partials;
}

void SimtEmitter::emitStage(unsigned stage) {
  currentStage = stage;
  SmallVector<Value> partials = getFirstPartials(stage);
  emitInner([&] {
    if (shape.threadsPerItem == 1)
      emitSerialLoops(stage, 0, partials);
    else
      emitThreadPoints(stage, partials);
  });
  finishReductions(stage, partials);
}

/// A loop that carries `partials`; `body` may change them.
static void emitLoop(OpBuilder &builder, Location loc, Value begin, Value end,
                     Value step, MutableArrayRef<Value> partials,
                     llvm::function_ref<void(Value)> body) {
  auto op = scf::ForOp::create(builder, loc, begin, end, step, partials);
  builder.setInsertionPointToStart(op.getBody());
  llvm::copy(op.getRegionIterArgs(), partials.begin());
  body(op.getInductionVar());
  if (!partials.empty())
    scf::YieldOp::create(builder, loc, partials);
  llvm::copy(op.getResults(), partials.begin());
  builder.setInsertionPointAfter(op);
}

void SimtEmitter::emitSerialLoops(unsigned stage, unsigned loop,
                                  MutableArrayRef<Value> partials) {
  ArrayRef<KernelLoop> all = loops.getLoops();
  while (loop < all.size() && !all[loop].inner)
    ++loop;
  if (loop == all.size())
    return emitPoint(stage, partials);
  emitLoop(inner, loc, getIndexConstant(0, inner),
           getIndexConstant(all[loop].size, inner), getIndexConstant(1, inner),
           partials, [&](Value index) {
             point[loop] = index;
             emitSerialLoops(stage, loop + 1, partials);
           });
}

void SimtEmitter::emitThreadPoints(unsigned stage,
                                   MutableArrayRef<Value> partials) {
  SmallVector<unsigned> order = getLoopOrder(/*isInner=*/true);
  emitLoop(inner, loc, threadInItem,
           getIndexConstant(loops.getInnerSize(), inner),
           getIndexConstant(shape.threadsPerItem, inner), partials,
           [&](Value number) {
             setPoint(order, number, inner);
             emitPoint(stage, partials);
           });
}

/// Everything a stage does at the current point.
void SimtEmitter::emitPoint(unsigned stage, MutableArrayRef<Value> partials) {
  innerKnown.clear();
  const KernelStage &work = loops.getStages()[stage];
  for (linalg::GenericOp op : work.reductions) {
    accumulate(op, partials.take_front(op->getNumResults()));
    partials = partials.drop_front(op->getNumResults());
  }
  storePoint(work.stores);
  storeScratch(stage);
}

//===----------------------------------------------------------------------===//
// Reductions
//===----------------------------------------------------------------------===//

/// Every thread of a column gets its result, by a tree over its threads.
Value SimtEmitter::reduceColumn(Value value, vector::CombiningKind kind) {
  auto at = [&](Value which) -> Value {
    return arith::AddIOp::create(
        outer, loc,
        arith::MulIOp::create(outer, loc, which,
                              getIndexConstant(shape.itemsPerBlock, outer)),
        arith::RemUIOp::create(outer, loc, thread,
                               getIndexConstant(shape.itemsPerBlock, outer)));
  };
  auto load = [&](Value which) {
    Value bits = memref::LoadOp::create(outer, loc, slots, at(which));
    return fromBits64(outer, loc, bits, value.getType());
  };
  auto store = [&](Value combined) {
    memref::StoreOp::create(outer, loc, toBits64(outer, loc, combined), slots,
                            at(threadInItem));
  };
  // Others may still read the result before.
  gpu::BarrierOp::create(outer, loc);
  store(value);
  for (int64_t half = shape.threadsPerItem / 2; half != 0; half /= 2) {
    gpu::BarrierOp::create(outer, loc);
    Value distance = getIndexConstant(half, outer);
    Value isBelow = arith::CmpIOp::create(outer, loc, arith::CmpIPredicate::ult,
                                          threadInItem, distance);
    emitIf(outer, isBelow, [&] {
      Value other = arith::AddIOp::create(outer, loc, threadInItem, distance);
      store(vector::makeArithReduction(outer, loc, kind, load(threadInItem),
                                       load(other)));
    });
  }
  gpu::BarrierOp::create(outer, loc);
  return load(getIndexConstant(0, outer));
}

Value SimtEmitter::reduceInItem(Value value, vector::CombiningKind kind) {
  if (shape.areColumns)
    return reduceColumn(value, kind);
  value = reduceInBlock(outer, loc, value, kind, thread, shape.threadsPerItem,
                        slots, usedSlots);
  usedSlots += getSlotsPerResult(shape);
  return value;
}

void SimtEmitter::finishReductions(unsigned stage, ArrayRef<Value> partials) {
  for (linalg::GenericOp op : loops.getStages()[stage].reductions)
    for (unsigned i = 0, e = op->getNumResults(); i != e; ++i) {
      Value value = partials.front();
      partials = partials.drop_front();
      if (shape.threadsPerItem != 1) {
        // Read before the barrier: what is stored later may lie there.
        Value init = beginsAtNeutral(loops, op, i) ? Value() : getInit(op, i);
        vector::CombiningKind kind = getCombiningKind(getCombiner(op, i));
        value = reduceInItem(value, kind);
        if (init)
          value = vector::makeArithReduction(outer, loc, kind, value, init);
      }
      outerKnown.results[op->getResult(i)] = {value};
    }
}
