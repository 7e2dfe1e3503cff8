//===- ParallelLoops.cpp - Parallel loops over threads --------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ParallelLoops.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;
using namespace mlir::fsdp;

static std::optional<int64_t> getTripCount(Value lower, Value upper,
                                           Value step) {
  std::optional<int64_t> from = getConstantIntValue(lower),
                         to = getConstantIntValue(upper),
                         by = getConstantIntValue(step);
  if (!from || !to || !by)
    return std::nullopt;
  return *to <= *from ? 0 : llvm::divideCeil(*to - *from, *by);
}

std::optional<int64_t> fsdp::getPointCount(scf::ParallelOp loop) {
  int64_t points = 1;
  for (auto [lower, upper, step] :
       llvm::zip(loop.getLowerBound(), loop.getUpperBound(), loop.getStep())) {
    std::optional<int64_t> count = getTripCount(lower, upper, step);
    if (!count)
      return std::nullopt;
    points *= *count;
  }
  return points;
}

static SmallVector<Value> createPointIndices(scf::ParallelOp loop, Value number,
                                             ArrayRef<Value> extents,
                                             OpBuilder &builder) {
  Location loc = loop.getLoc();
  SmallVector<Value> indices(extents.size());
  for (int i = extents.size() - 1; i >= 0; --i) {
    Value index = number;
    if (i != 0) {
      index = arith::RemUIOp::create(builder, loc, number, extents[i]);
      number = arith::DivUIOp::create(builder, loc, number, extents[i]);
    }
    index = arith::MulIOp::create(builder, loc, index, loop.getStep()[i]);
    indices[i] =
        arith::AddIOp::create(builder, loc, index, loop.getLowerBound()[i]);
  }
  return indices;
}

/// Clones the body of `loop` at `builder`, for the point `number`.
static void clonePoint(scf::ParallelOp loop, Value number,
                       ArrayRef<Value> extents, OpBuilder &builder) {
  IRMapping mapping;
  mapping.map(loop.getInductionVars(),
              createPointIndices(loop, number, extents, builder));
  for (Operation &op : loop.getBody()->without_terminator())
    builder.clone(op, mapping);
}

/// Iterations of each dimension.
static SmallVector<Value> createExtents(scf::ParallelOp loop,
                                        OpBuilder &builder) {
  SmallVector<Value> extents;
  for (auto [lower, upper, step] :
       llvm::zip(loop.getLowerBound(), loop.getUpperBound(), loop.getStep())) {
    Value distance =
        arith::SubIOp::create(builder, loop.getLoc(), upper, lower);
    Value zero = arith::ConstantIndexOp::create(builder, loop.getLoc(), 0);
    distance = arith::MaxSIOp::create(builder, loop.getLoc(), distance, zero);
    extents.push_back(
        arith::CeilDivUIOp::create(builder, loop.getLoc(), distance, step));
  }
  return extents;
}

SmallVector<Value> fsdp::createPointIndices(scf::ParallelOp loop, Value number,
                                            OpBuilder &builder) {
  return ::createPointIndices(loop, number, createExtents(loop, builder),
                              builder);
}

void fsdp::runPoints(scf::ParallelOp loop, Value first, Value step) {
  OpBuilder builder(loop);
  Location loc = loop.getLoc();
  SmallVector<Value> extents = createExtents(loop, builder);
  Value count = arith::ConstantIndexOp::create(builder, loc, 1);
  for (Value extent : extents)
    count = arith::MulIOp::create(builder, loc, count, extent);
  auto serial = scf::ForOp::create(builder, loc, first, count, step);
  builder.setInsertionPointToStart(serial.getBody());
  clonePoint(loop, serial.getInductionVar(), extents, builder);
  loop.erase();
}

void fsdp::runPoint(scf::ParallelOp loop, Value number) {
  OpBuilder builder(loop);
  Location loc = loop.getLoc();
  SmallVector<Value> extents = createExtents(loop, builder);
  Value count =
      arith::ConstantIndexOp::create(builder, loc, *getPointCount(loop));
  Value isPoint = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ult,
                                        number, count);
  auto branch =
      scf::IfOp::create(builder, loc, isPoint, /*withElseRegion=*/false);
  builder.setInsertionPointToStart(branch.thenBlock());
  clonePoint(loop, number, extents, builder);
  loop.erase();
}

//===----------------------------------------------------------------------===//
// One block
//===----------------------------------------------------------------------===//

static bool allocates(scf::ParallelOp loop) {
  return loop.walk([](memref::AllocOp) { return WalkResult::interrupt(); })
      .wasInterrupted();
}

/// Thread by thread, memory of its own needs neither barriers nor a first one.
static bool isPrivate(Operation *op) {
  auto store = dyn_cast<memref::StoreOp>(op);
  return store && store.getMemRef().getDefiningOp<memref::AllocaOp>();
}

static void surroundByBarriers(Operation *op) {
  OpBuilder builder(op);
  if (!isa_and_nonnull<gpu::BarrierOp>(op->getPrevNode()))
    gpu::BarrierOp::create(builder, op->getLoc());
  builder.setInsertionPointAfter(op);
  gpu::BarrierOp::create(builder, op->getLoc());
}

static void runOnFirstThread(Operation *op, Value thread) {
  OpBuilder builder(op);
  Value zero = arith::ConstantIndexOp::create(builder, op->getLoc(), 0);
  Value isFirst = arith::CmpIOp::create(builder, op->getLoc(),
                                        arith::CmpIPredicate::eq, thread, zero);
  auto branch = scf::IfOp::create(builder, op->getLoc(), isFirst,
                                  /*withElseRegion=*/false);
  op->moveBefore(branch.thenBlock()->getTerminator());
  surroundByBarriers(branch);
}

/// Every thread runs all iterations, together.
static void runInOrder(scf::ParallelOp loop) {
  OpBuilder builder(loop);
  Value zero = arith::ConstantIndexOp::create(builder, loop.getLoc(), 0);
  Value one = arith::ConstantIndexOp::create(builder, loop.getLoc(), 1);
  runPoints(loop, zero, one);
}

void fsdp::runAllocatingLoopsInOrder(Region &region) {
  // An outer loop allocates what an inner one does, and makes that sequential.
  auto findOne = [&] {
    scf::ParallelOp found;
    region.walk<WalkOrder::PreOrder>([&](scf::ParallelOp loop) {
      if (loop.getNumReductions() != 0 || !allocates(loop))
        return WalkResult::advance();
      found = loop;
      return WalkResult::interrupt();
    });
    return found;
  };
  while (scf::ParallelOp loop = findOne())
    runInOrder(loop);
}

LogicalResult fsdp::distribute(Region &region, Value thread, int64_t threads) {
  for (Block &block : region) {
    for (Operation *op = block.empty() ? nullptr : &block.front(); op;) {
      Operation *next = op->getNextNode();
      if (auto loop = dyn_cast<scf::ParallelOp>(op)) {
        if (loop.getNumReductions() != 0)
          return loop.emitOpError("expected a loop that reduces nothing");
        surroundByBarriers(loop);
        next = loop->getNextNode();
        OpBuilder builder(loop);
        runPoints(
            loop, thread,
            arith::ConstantIndexOp::create(builder, loop.getLoc(), threads));
      } else if (op->getNumRegions() != 0) {
        for (Region &inner : op->getRegions())
          if (failed(distribute(inner, thread, threads)))
            return failure();
      } else if (hasEffect<MemoryEffects::Write>(op) && !isPrivate(op) &&
                 !isa<gpu::BarrierOp>(op)) {
        runOnFirstThread(op, thread);
      }
      op = next;
    }
  }
  return success();
}
