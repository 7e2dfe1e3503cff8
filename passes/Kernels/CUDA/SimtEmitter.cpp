//===- SimtEmitter.cpp - Code with a value per thread ---------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "SimtEmitter.h"
#include "BlockReduction.h"

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

/// Threads of a block whose threads compute items of their own.
constexpr int64_t kThreadItems = 128;

/// Inner points that a thread of a block computes before more threads pay:
/// their results take a barrier to meet.
constexpr int64_t kPointsPerThread = 4;

/// What every card since sm_20 has without being asked for more.
constexpr int64_t kSharedBytes = 48 * 1024;

static int64_t getItemCount(const KernelLoops &loops) {
  int64_t count = 1;
  for (const KernelLoop &loop : loops.getLoops())
    if (!loop.inner)
      count *= loop.size;
  return count;
}

int64_t fsdp::getSlotCount(const KernelLoops &loops, const SimtShape &shape) {
  if (!shape.isBlockPerItem)
    return 0;
  int64_t results = 0;
  for (const KernelStage &stage : loops.getStages())
    for (linalg::GenericOp op : stage.reductions)
      results += op->getNumResults();
  return results * getSlotsPerReduction(shape.block);
}

SimtShape fsdp::chooseSimtShape(const KernelLoops &loops) {
  SimtShape shape = {};
  shape.items = getItemCount(loops);
  int64_t inner = loops.getInnerSize();
  // Neighbouring columns are read together by neighbouring threads, and so are
  // rows too short for a warp, more or less.
  shape.isBlockPerItem = inner >= kWarpThreads && !loops.isLaneOuter();
  if (!shape.isBlockPerItem) {
    shape.block = kThreadItems;
    shape.grid = llvm::divideCeil(shape.items, kThreadItems);
    return shape;
  }
  int64_t threads =
      llvm::PowerOf2Ceil(llvm::divideCeil(inner, kPointsPerThread));
  shape.block = std::clamp<int64_t>(threads, kWarpThreads, 1024);
  shape.grid = shape.items;
  int64_t scratch = getScratchBytes(loops, /*lanes=*/1);
  int64_t slots = getSlotCount(loops, shape) * sizeof(int64_t);
  if (scratch + slots <= kSharedBytes)
    shape.shared = scratch;
  return shape;
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

void SimtEmitter::emit() {
  point.assign(loops.getLoops().size(), Value());
  Value block = gpu::BlockIdOp::create(outer, loc, gpu::Dimension::x);
  thread = gpu::ThreadIdOp::create(outer, loc, gpu::Dimension::x);
  SmallVector<unsigned> order = getLoopOrder(/*isInner=*/false);
  if (shape.isBlockPerItem) {
    setPoint(order, block, outer);
    return emitBlockItem();
  }
  Value first = arith::MulIOp::create(outer, loc, block,
                                      getIndexConstant(shape.block, outer));
  Value item = arith::AddIOp::create(outer, loc, first, thread);
  Value isItem =
      arith::CmpIOp::create(outer, loc, arith::CmpIPredicate::ult, item,
                            getIndexConstant(shape.items, outer));
  auto branch = scf::IfOp::create(outer, loc, isItem, /*withElseRegion=*/false);
  outer.setInsertionPointToStart(branch.thenBlock());
  setPoint(order, item, outer);
  for (unsigned stage = 0, e = loops.getStages().size(); stage != e; ++stage)
    emitStage(stage);
  storeResults(loops.getItemStores(), /*atInner=*/false);
  outer.setInsertionPointAfter(branch);
}

/// What a stage or the item's results write may lie where other threads read in
/// the stage before: no thread goes on until all are done with it.
void SimtEmitter::emitBlockItem() {
  ArrayRef<KernelStage> stages = loops.getStages();
  for (auto [i, stage] : llvm::enumerate(stages)) {
    emitStage(i);
    bool isLast = i + 1 == stages.size() && loops.getItemStores().empty();
    bool hasBarrier = !stage.reductions.empty() && shape.block > kWarpThreads;
    if (!isLast && !hasBarrier)
      gpu::BarrierOp::create(outer, loc);
  }
  if (loops.getItemStores().empty())
    return;
  Value isFirst = arith::CmpIOp::create(outer, loc, arith::CmpIPredicate::eq,
                                        thread, getIndexConstant(0, outer));
  auto branch =
      scf::IfOp::create(outer, loc, isFirst, /*withElseRegion=*/false);
  outer.setInsertionPointToStart(branch.thenBlock());
  storeResults(loops.getItemStores(), /*atInner=*/false);
  outer.setInsertionPointAfter(branch);
}

//===----------------------------------------------------------------------===//
// Stages
//===----------------------------------------------------------------------===//

/// The init of a serial sum; the neutral element of one that a block's threads
/// share, which meets the init at the end.
SmallVector<Value> SimtEmitter::getFirstPartials(unsigned stage) {
  SmallVector<Value> partials;
  for (linalg::GenericOp op : loops.getStages()[stage].reductions)
    for (unsigned i = 0, e = op->getNumResults(); i != e; ++i) {
      if (!shape.isBlockPerItem) {
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
  // Values of the item that turn out to be needed go before the loops.
  Operation *marker = getIndexConstant(0, outer).getDefiningOp();
  inner.setInsertionPointAfter(marker);
  outer.setInsertionPoint(marker);
  if (shape.isBlockPerItem)
    emitThreadPoints(stage, partials);
  else
    emitSerialLoops(stage, 0, partials);
  outer.restoreInsertionPoint(inner.saveInsertionPoint());
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
  emitLoop(inner, loc, thread, getIndexConstant(loops.getInnerSize(), inner),
           getIndexConstant(shape.block, inner), partials, [&](Value number) {
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
  storeResults(work.stores, /*atInner=*/true);
  storeScratch(stage);
}

//===----------------------------------------------------------------------===//
// Reductions
//===----------------------------------------------------------------------===//

void SimtEmitter::finishReductions(unsigned stage, ArrayRef<Value> partials) {
  for (linalg::GenericOp op : loops.getStages()[stage].reductions)
    for (unsigned i = 0, e = op->getNumResults(); i != e; ++i) {
      Value value = partials.front();
      partials = partials.drop_front();
      if (shape.isBlockPerItem) {
        // Read before the barrier: what is stored later may lie there.
        Value init = beginsAtNeutral(loops, op, i) ? Value() : getInit(op, i);
        vector::CombiningKind kind = getCombiningKind(getCombiner(op, i));
        value = reduceInBlock(outer, loc, value, kind, thread, shape.block,
                              slots, usedSlots);
        usedSlots += getSlotsPerReduction(shape.block);
        if (init)
          value = vector::makeArithReduction(outer, loc, kind, value, init);
      }
      outerKnown.results[op->getResult(i)] = {value};
    }
}
