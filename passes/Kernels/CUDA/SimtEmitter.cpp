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
#include "llvm/ADT/ScopeExit.h"

using namespace mlir;
using namespace mlir::fsdp;

//===----------------------------------------------------------------------===//
// Shape
//===----------------------------------------------------------------------===//

/// Threads of a block that computes several items, and of one whose threads
/// share columns, unless chooseColumns gives it more.
constexpr int64_t kBlockThreads = 128, kColumnThreads = 256;

/// Inner points that a thread computes before more threads pay: their results
/// take a barrier to meet.
constexpr int64_t kPointsPerThread = 4;

/// Vectors of a thread beyond which threads that have nothing to do at the end
/// of a row are better.
constexpr int64_t kMostVectors = 4;

constexpr int64_t kMostThreads = 1024;

/// A kernel of columns with at most so many accesses at a point needs no more
/// than the 64 registers that each of kMostThreads threads can have.
constexpr int64_t kFewAccesses = 2;

/// Slots that columns have at most: of 48 KiB they leave a third to others.
constexpr int64_t kMostSlots = 4096;

/// So many columns give a device's threads enough to do without sharing any.
constexpr int64_t kManyColumns = 65536;

/// Slots of one result that is reduced.
static int64_t getSlotsPerResult(const SimtShape &shape) {
  if (shape.threadsPerItem == 1)
    return 0;
  return shape.areColumns ? shape.getBlock() * shape.lanes
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
static SimtShape chooseRows(const KernelLoops &loops, int64_t lanes,
                            int64_t items, int64_t mostThreads) {
  // Vectors of a row, and so many of each thread that it has kPointsPerThread
  // points.
  int64_t vectors = loops.getInnerSize() / lanes;
  int64_t threads = std::clamp<int64_t>(
      llvm::PowerOf2Ceil(llvm::divideCeil(loops.getInnerSize(),
                                          std::max(lanes, kPointsPerThread))),
      kWarpThreads, mostThreads);
  // Fewer threads that all have the same number of them.
  int64_t even = threads;
  while (even > kWarpThreads && vectors % even != 0)
    even /= 2;
  if (vectors / even <= kMostVectors)
    threads = even;
  int64_t scratch = getScratchBytes(loops, /*lanes=*/1);
  SimtShape shape{
      lanes,       items, /*itemsPerBlock=*/1, threads, /*areColumns=*/false,
      /*shared=*/0};
  if (scratch == 0 && threads == kWarpThreads)
    shape.itemsPerBlock = kBlockThreads / kWarpThreads;
  int64_t slots = getSlotCount(loops, shape) * sizeof(int64_t);
  if (scratch + slots <= kMostShared)
    shape.shared = scratch;
  return shape;
}

/// Accesses at inner points.
static int64_t countInnerAccesses(const KernelLoops &loops) {
  return llvm::count_if(loops.getAccesses(), [&](const KernelAccess *access) {
    return llvm::any_of(
        llvm::zip(loops.getLoops(), access->strides), [](auto each) {
          return std::get<0>(each).inner && std::get<1>(each) != 0;
        });
  });
}

/// Columns: neighbouring threads read neighbouring items. Where there are few,
/// several warps share them: as many as give a device enough threads, if
/// these need few registers, and as have kMostSlots.
static SimtShape chooseColumns(const KernelLoops &loops, int64_t lanes,
                               int64_t items, int64_t tunedThreads) {
  SimtShape shape{lanes,
                  items,
                  kBlockThreads,
                  /*threadsPerItem=*/1,
                  /*areColumns=*/true,
                  /*shared=*/0};
  int64_t inner = loops.getInnerSize();
  if (inner < kWarpThreads || items >= kManyColumns)
    return shape;
  shape.itemsPerBlock =
      std::min<int64_t>(kWarpThreads, llvm::PowerOf2Ceil(items));
  int64_t blocks = llvm::divideCeil(items, shape.itemsPerBlock);
  int64_t blockThreads = tunedThreads;
  if (tunedThreads == 0)
    blockThreads = kColumnThreads;
  if (tunedThreads == 0 && countInnerAccesses(loops) <= kFewAccesses)
    blockThreads = std::min<int64_t>(
        std::clamp<int64_t>(llvm::PowerOf2Ceil(kManyColumns / blocks),
                            kColumnThreads, kMostThreads),
        llvm::bit_floor(uint64_t(kMostSlots / lanes)));
  shape.threadsPerItem = std::min<int64_t>(
      blockThreads / shape.itemsPerBlock,
      llvm::PowerOf2Ceil(llvm::divideCeil(inner, kPointsPerThread)));
  return shape;
}

SimtThreads SimtThreads::getDefault() { return {kMostThreads, 0}; }

SimtShape fsdp::chooseSimtShape(const KernelLoops &loops,
                                const SimtThreads &threads) {
  int64_t lanes = chooseLanes(loops);
  int64_t items = loops.getItemCount();
  if (loops.isLaneOuter())
    items /= lanes;
  // Rows too short for a warp are read together by neighbouring threads, more
  // or less.
  if (loops.isLaneOuter() || loops.getInnerSize() < kWarpThreads)
    return chooseColumns(loops, lanes, items, threads.columns);
  return chooseRows(loops, lanes, items, threads.row);
}

//===----------------------------------------------------------------------===//
// Items
//===----------------------------------------------------------------------===//

static bool isOuter(const KernelLoop &loop) { return !loop.inner; }
static bool isInner(const KernelLoop &loop) { return loop.inner; }

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
  setPoint(getLoopOrder(isOuter), item, outer);
}

SimtEmitter::SimtEmitter(const KernelLoops &loops, const SimtShape &shape,
                         OpBuilder &builder, Location loc, IRMapping memory,
                         Value slots, Value scratch,
                         llvm::DenseSet<Operation *> functions)
    : SimtValues(loops, shape.lanes, builder, loc, std::move(memory), scratch,
                 std::move(functions)),
      shape(shape), slots(slots) {}

void SimtEmitter::emit() {
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

/// The init of a serial sum; the neutral element of one that lanes or threads
/// share, which meets the init at the end.
SmallVector<Value> SimtEmitter::getFirstPartials(unsigned stage) {
  SmallVector<Value> partials;
  sumZeros.clear();
  for (linalg::GenericOp op : loops.getStages()[stage].reductions)
    for (unsigned i = 0, e = op->getNumResults(); i != e; ++i) {
      Operation *combiner = getCombiner(op, i);
      if (shape.threadsPerItem == 1) {
        partials.push_back(getInit(op, i));
      } else {
        TypedAttr neutral = *arith::getNeutralElement(combiner);
        Value scalar = arith::ConstantOp::create(outer, loc, neutral);
        partials.push_back(toVector(LaneValue{scalar}, outer).value);
      }
      sumZeros.push_back(
          createSumZero(outer, loc, combiner, partials.back().getType()));
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

/// The first inner loop from `first` on; the number of loops where there is
/// none.
unsigned SimtEmitter::getInnerLoop(unsigned first) const {
  ArrayRef<KernelLoop> all = loops.getLoops();
  while (first < all.size() && !all[first].inner)
    ++first;
  return first;
}

/// How a loop of the current stage is cut: of `iterations`, each of which runs
/// inner loop `next`, if there is one.
SumBlocks SimtEmitter::getBlocks(int64_t iterations, unsigned next) const {
  if (llvm::none_of(sumZeros, [](Value zero) { return bool(zero); }))
    return {};
  next = getInnerLoop(next);
  ArrayRef<KernelLoop> all = loops.getLoops();
  return planSumBlocks(
      iterations,
      next < all.size() ? getBlocks(all[next].size, next + 1).terms : 1);
}

void SimtEmitter::emitSerialLoops(unsigned stage, unsigned loop,
                                  MutableArrayRef<Value> partials) {
  loop = getInnerLoop(loop);
  if (loop == loops.getLoops().size())
    return emitPoint(stage, partials);
  int64_t size = loops.getLoops()[loop].size;
  emitSumLoop(inner, loc, getIndexConstant(0, inner),
              getIndexConstant(size, inner), /*step=*/1,
              getBlocks(size, loop + 1), sumZeros, partials, [&](Value index) {
                point[loop] = index;
                emitSerialLoops(stage, loop + 1, partials);
              });
}

void SimtEmitter::emitThreadPoints(unsigned stage,
                                   MutableArrayRef<Value> partials) {
  SmallVector<unsigned> order = getLoopOrder(isInner);
  int64_t count = loops.getInnerSize() / (isLaneOuter() ? 1 : lanes);
  int64_t threads = shape.threadsPerItem;
  emitSumLoop(inner, loc, threadInItem, getIndexConstant(count, inner), threads,
              getBlocks(llvm::divideCeil(count, threads),
                        /*next=*/loops.getLoops().size()),
              sumZeros, partials, [&](Value number) {
                setPoint(order, number, inner);
                emitPoint(stage, partials);
              });
  emitRest(stage, partials);
}

/// The points after the last whole vector of a row: one for each of the first
/// threads, whose results meet those of the thread's first lane.
void SimtEmitter::emitRest(unsigned stage, MutableArrayRef<Value> partials) {
  int64_t size = loops.getInnerSize(), rest = size % lanes;
  if (lane < 0 || isLaneOuter() || rest == 0)
    return;
  llvm::scope_exit restored(
      [this, lane = lane, lanes = lanes, alignment = vectorAlignment] {
        this->lane = lane;
        this->lanes = activeLanes = lanes;
        vectorAlignment = alignment;
      });
  unsigned loop = std::exchange(lane, -1);
  lanes = activeLanes = 1;
  vectorAlignment = 0;
  emitSumLoop(
      inner, loc, threadInItem, getIndexConstant(rest, inner),
      shape.threadsPerItem, SumBlocks(), sumZeros, partials, [&](Value number) {
        point[loop] = arith::AddIOp::create(
            inner, loc, number, getIndexConstant(size - rest, inner));
        SmallVector<SmallVector<Value>> elements;
        SmallVector<Value> first;
        for (Value partial : partials) {
          elements.push_back(llvm::to_vector_of<Value>(
              vector::ToElementsOp::create(inner, loc, partial).getResults()));
          first.push_back(elements.back().front());
        }
        emitPoint(stage, first);
        for (auto [partial, all, value] :
             llvm::zip_equal(partials, elements, first)) {
          all.front() = value;
          partial = vector::FromElementsOp::create(inner, loc,
                                                   partial.getType(), all);
        }
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

/// Every thread of a column gets its result, by a tree over its threads. A
/// thread of several columns has neighbouring slots for them.
Value SimtEmitter::reduceColumn(Value value, vector::CombiningKind kind) {
  Type type = value.getType();
  auto at = [&](Value which, int64_t column) -> Value {
    Value slot = arith::AddIOp::create(
        outer, loc,
        arith::MulIOp::create(outer, loc, which,
                              getIndexConstant(shape.itemsPerBlock, outer)),
        arith::RemUIOp::create(outer, loc, thread,
                               getIndexConstant(shape.itemsPerBlock, outer)));
    slot =
        arith::MulIOp::create(outer, loc, slot, getIndexConstant(lanes, outer));
    return arith::AddIOp::create(outer, loc, slot,
                                 getIndexConstant(column, outer));
  };
  auto load = [&](Value which) -> Value {
    SmallVector<Value> columns;
    for (int64_t column = 0; column < lanes; ++column) {
      Value bits = memref::LoadOp::create(outer, loc, slots, at(which, column));
      columns.push_back(
          fromBits64(outer, loc, bits, getElementTypeOrSelf(type)));
    }
    if (!isa<VectorType>(type))
      return columns.front();
    return vector::FromElementsOp::create(outer, loc, type, columns);
  };
  auto store = [&](Value combined) {
    for (int64_t column = 0; column < lanes; ++column) {
      Value element = combined;
      if (isa<VectorType>(type))
        element = vector::ExtractOp::create(outer, loc, combined, column);
      memref::StoreOp::create(outer, loc, toBits64(outer, loc, element), slots,
                              at(threadInItem, column));
    }
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

/// The lanes of a row meet first, in a tree; then its threads.
Value SimtEmitter::reduceInItem(Value value, vector::CombiningKind kind) {
  if (shape.areColumns)
    return reduceColumn(value, kind);
  value = reduceLanes(value, kind);
  value = reduceInBlock(outer, loc, BlockValue{value, kind, {}}, thread,
                        shape.threadsPerItem, slots,
                        getIndexConstant(usedSlots, outer))
              .front();
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
      outerKnown.results[op->getResult(i)] = {value,
                                              isa<VectorType>(value.getType())};
    }
}
