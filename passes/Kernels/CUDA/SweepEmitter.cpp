//===- SweepEmitter.cpp - Rows and sums over them in one kernel -----------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "SweepEmitter.h"
#include "BlockReduction.h"
#include "Kernels/Common/SumBlocks.h"
#include "fsdp/Analysis/Kernels/ComputeOps.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"

using namespace mlir;
using namespace mlir::fsdp;

//===----------------------------------------------------------------------===//
// Shape
//===----------------------------------------------------------------------===//

constexpr int64_t kMostThreads = 1024;

SweepShape fsdp::chooseSweepShape(const KernelLoops &loops) {
  SweepShape shape;
  shape.lanes = loops.isLaneOuter() ? 1 : chooseLanes(loops);
  shape.rows = loops.getSweptSize();
  shape.chunks = loops.getItemCount() / shape.rows;
  int64_t count = loops.getInnerSize() / shape.lanes;
  shape.vectors = llvm::divideCeil(count, kMostThreads);
  shape.threads =
      llvm::alignTo(llvm::divideCeil(count, shape.vectors), kWarpThreads);
  return shape;
}

/// Slots of all reductions of a row.
static int64_t getSlotsPerRow(const KernelLoops &loops,
                              const SweepShape &shape) {
  int64_t results = 0;
  for (const KernelStage &stage : loops.getStages())
    for (linalg::GenericOp op : stage.reductions)
      results += op->getNumResults();
  return results * getSlotsPerReduction(shape.threads);
}

int64_t fsdp::getSlotCount(const KernelLoops &loops, const SweepShape &shape) {
  return 2 * getSlotsPerRow(loops, shape);
}

//===----------------------------------------------------------------------===//
// Columns
//===----------------------------------------------------------------------===//

/// Columns beyond the row's end are those of its last vector once more: loads
/// are in bounds, and what is computed there is neither added nor stored.
void SweepEmitter::setColumns() {
  SmallVector<unsigned> order =
      getLoopOrder([](const KernelLoop &loop) { return loop.inner; });
  int64_t count = loops.getInnerSize() / lanes;
  for (int64_t i = 0; i < shape.vectors; ++i) {
    Columns &made = columns.emplace_back();
    Value number = arith::AddIOp::create(
        outer, loc, thread, getIndexConstant(i * shape.threads, outer));
    if ((i + 1) * shape.threads > count) {
      made.isInRow =
          arith::CmpIOp::create(outer, loc, arith::CmpIPredicate::ult, number,
                                getIndexConstant(count, outer));
      number = arith::MinUIOp::create(outer, loc, number,
                                      getIndexConstant(count - 1, outer));
    }
    setPoint(order, number, outer);
    made.point = point;
  }
}

void SweepEmitter::atColumns(Columns &columns,
                             llvm::function_ref<void()> body) {
  for (auto [i, loop] : llvm::enumerate(loops.getLoops()))
    if (loop.inner)
      point[i] = columns.point[i];
  std::swap(innerKnown, columns.known);
  body();
  std::swap(innerKnown, columns.known);
}

/// What sums of @ops begin with, of as many lanes as a thread has. @zeros gets
/// for each the zero that planSumBlocks' blocks begin with.
SmallVector<Value> SweepEmitter::getNeutrals(ArrayRef<linalg::GenericOp> ops,
                                             SmallVectorImpl<Value> *zeros) {
  SmallVector<Value> neutrals;
  for (linalg::GenericOp op : ops)
    for (unsigned i = 0, e = op->getNumResults(); i != e; ++i) {
      Operation *combiner = getCombiner(op, i);
      Value scalar = arith::ConstantOp::create(
          outer, loc, *arith::getNeutralElement(combiner));
      neutrals.push_back(toVector(LaneValue{scalar}, outer).value);
      if (zeros)
        zeros->push_back(
            createSumZero(outer, loc, combiner, neutrals.back().getType()));
    }
  return neutrals;
}

//===----------------------------------------------------------------------===//
// Rows
//===----------------------------------------------------------------------===//

void SweepEmitter::emit() {
  thread = gpu::ThreadIdOp::create(outer, loc, gpu::Dimension::x);
  setPoint(getLoopOrder([](const KernelLoop &loop) {
             return !loop.inner && !loop.swept;
           }),
           gpu::BlockIdOp::create(outer, loc, gpu::Dimension::x), outer);
  setColumns();
  SmallVector<Value> sums, zeros;
  for (int64_t i = 0; i < shape.vectors; ++i)
    llvm::append_range(sums, getNeutrals(loops.getColumnSums(), &zeros));
  SmallVector<unsigned> rows =
      getLoopOrder([](const KernelLoop &loop) { return loop.swept; });
  emitSumLoop(outer, loc, getIndexConstant(0, outer),
              getIndexConstant(shape.rows, outer), /*step=*/1,
              planSumBlocks(shape.rows, /*terms=*/1), zeros, sums,
              [&](Value row) {
                setPoint(rows, row, outer);
                Value turn = arith::RemUIOp::create(outer, loc, row,
                                                    getIndexConstant(2, outer));
                rowSlots = arith::MulIOp::create(
                    outer, loc, turn,
                    getIndexConstant(getSlotsPerRow(loops, shape), outer));
                emitRow(sums);
              });
  forgetRow();
  storeSums(sums);
}

/// Values of one row are none of another's.
void SweepEmitter::forgetRow() {
  outerKnown.clear();
  for (Columns &each : columns)
    each.known.clear();
  usedSlots = 0;
}

void SweepEmitter::emitRow(MutableArrayRef<Value> sums) {
  forgetRow();
  for (unsigned stage = 0, e = loops.getStages().size(); stage != e; ++stage)
    emitStage(stage, sums);
  if (loops.getItemStores().empty())
    return;
  for (OpResult result : loops.getItemStores())
    (void)getResult(result, /*atInner=*/false);
  // Other threads may still read of the row what lies there.
  gpu::BarrierOp::create(outer, loc);
  Value isFirst = arith::CmpIOp::create(outer, loc, arith::CmpIPredicate::eq,
                                        thread, getIndexConstant(0, outer));
  emitIf(outer, isFirst,
         [&] { storeResults(loops.getItemStores(), /*atInner=*/false); });
}

void SweepEmitter::emitStage(unsigned stage, MutableArrayRef<Value> sums) {
  currentStage = stage;
  SmallVector<Value> partials =
      getNeutrals(loops.getStages()[stage].reductions);
  emitInner([&] {
    size_t count = sums.size() / columns.size();
    for (auto [i, each] : llvm::enumerate(columns))
      atColumns(each, [&, i = i, &each = each] {
        emitPoint(stage, each.isInRow, partials, sums.slice(i * count, count));
      });
  });
  finishReductions(stage, partials);
}

/// What a stage does at the thread's current columns. Values come before the
/// branch around stores: later ops outside of it use them again.
void SweepEmitter::emitPoint(unsigned stage, Value isInRow,
                             MutableArrayRef<Value> partials,
                             MutableArrayRef<Value> sums) {
  const KernelStage &work = loops.getStages()[stage];
  for (linalg::GenericOp op : work.reductions) {
    MutableArrayRef<Value> own = partials.take_front(op->getNumResults());
    partials = partials.drop_front(op->getNumResults());
    SmallVector<Value> before(own);
    accumulate(op, own);
    for (auto [after, old] : llvm::zip_equal(own, before))
      if (isInRow)
        after = arith::SelectOp::create(inner, loc, isInRow, after, old);
  }
  for (linalg::GenericOp op : loops.getColumnSums()) {
    if (llvm::is_contained(work.columnSums, op))
      accumulate(op, sums.take_front(op->getNumResults()));
    sums = sums.drop_front(op->getNumResults());
  }
  for (OpResult result : work.stores)
    (void)getResult(result, /*atInner=*/true);
  if (!work.stores.empty())
    emitIf(inner, isInRow,
           [&] { storeResults(work.stores, /*atInner=*/true); });
}

/// Every thread gets the row's results.
void SweepEmitter::finishReductions(unsigned stage, ArrayRef<Value> partials) {
  SmallVector<BlockValue> values;
  SmallVector<OpResult> results;
  // Read before the barrier: what is stored later may lie there.
  SmallVector<Value> inits;
  for (linalg::GenericOp op : loops.getStages()[stage].reductions)
    for (unsigned i = 0, e = op->getNumResults(); i != e; ++i) {
      vector::CombiningKind kind = getCombiningKind(getCombiner(op, i));
      Value neutral = arith::ConstantOp::create(
          outer, loc, *arith::getNeutralElement(getCombiner(op, i)));
      values.push_back(
          {reduceLanes(partials[results.size()], kind), kind, neutral});
      results.push_back(op->getResult(i));
      inits.push_back(beginsAtNeutral(loops, op, i) ? Value() : getInit(op, i));
    }
  if (values.empty())
    return;
  Value first = arith::AddIOp::create(outer, loc, rowSlots,
                                      getIndexConstant(usedSlots, outer));
  usedSlots += int64_t(values.size()) * getSlotsPerReduction(shape.threads);
  SmallVector<Value> combined =
      reduceInBlock(outer, loc, values, thread, shape.threads, slots, first);
  for (auto [result, value, init, each] :
       llvm::zip_equal(results, combined, inits, values)) {
    if (init)
      value = vector::makeArithReduction(outer, loc, each.kind, value, init);
    outerKnown.results[result] = {value};
  }
}

/// The sums of the thread's columns, behind the last row.
void SweepEmitter::storeSums(ArrayRef<Value> sums) {
  emitInner([&] {
    for (Columns &each : columns)
      atColumns(each, [&] {
        SmallVector<std::pair<OpResult, LaneValue>> stored;
        for (linalg::GenericOp op : loops.getColumnSums())
          for (OpResult result : op->getResults()) {
            Value sum = sums.consume_front();
            if (!loops.getWrite(result))
              continue;
            unsigned i = result.getResultNumber();
            if (!beginsAtNeutral(loops, op, i)) {
              LaneValue init = getOperand(op, *op.getDpsInitOperand(i),
                                          /*atInner=*/true);
              sum = vector::makeArithReduction(
                  inner, loc, getCombiningKind(getCombiner(op, i)), sum,
                  toVector(init, inner).value);
            }
            stored.push_back({result, {sum, isa<VectorType>(sum.getType())}});
          }
        emitIf(inner, each.isInRow, [&] {
          for (auto &[result, value] : stored)
            store(*loops.getWrite(result), value, inner);
        });
      });
  });
}
