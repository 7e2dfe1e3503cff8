//===- InterchangeLoops.cpp - Parallel loops around sequential ones -------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Passes/Passes.h"

#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/MapVector.h"

namespace mlir::fsdp {
#define GEN_PASS_DEF_INTERCHANGELOOPS
#include "fsdp/Passes/Passes.h.inc"
} // namespace mlir::fsdp

using namespace mlir;
using namespace mlir::fsdp;

namespace {
/// A load or a store.
struct Access {
  Operation *op;
  Value memory;
  OperandRange indices;
  bool isStore;
};

/// A loop in another one, by either kind of op.
struct InnerLoop {
  Operation *op = nullptr;
  SmallVector<Value> lower, upper, step, variables;
  Block *body = nullptr;

  SmallVector<Value> getBounds() const {
    SmallVector<Value> bounds(lower);
    llvm::append_range(bounds, upper);
    llvm::append_range(bounds, step);
    return bounds;
  }
};
} // namespace

static std::optional<Access> getAccess(Operation *op) {
  if (auto load = dyn_cast<memref::LoadOp>(op))
    return Access{op, load.getMemRef(), load.getIndices(), false};
  if (auto store = dyn_cast<memref::StoreOp>(op))
    return Access{op, store.getMemRef(), store.getIndices(), true};
  return std::nullopt;
}

/// @op as an inner loop; its `op` is null where it is none, or has results.
static InnerLoop getInnerLoop(Operation &op) {
  if (op.getNumResults() != 0)
    return {};
  if (auto loop = dyn_cast<scf::ForOp>(op))
    return {&op,
            {loop.getLowerBound()},
            {loop.getUpperBound()},
            {loop.getStep()},
            {loop.getInductionVar()},
            loop.getBody()};
  if (auto loop = dyn_cast<scf::ParallelOp>(op))
    return {&op,
            llvm::to_vector(loop.getLowerBound()),
            llvm::to_vector(loop.getUpperBound()),
            llvm::to_vector(loop.getStep()),
            llvm::to_vector_of<Value>(loop.getInductionVars()),
            loop.getBody()};
  return {};
}

/// The inner loop that is all that @loop does in memory but for loads; none
/// where there is no such one.
static InnerLoop getOnlyInner(scf::ForOp loop) {
  if (loop.getNumResults() != 0)
    return {};
  InnerLoop only;
  for (Operation &op : loop.getBody()->without_terminator()) {
    if (InnerLoop inner = getInnerLoop(op); inner.op) {
      if (only.op)
        return {};
      only = std::move(inner);
    } else if (!isMemoryEffectFree(&op) && !isa<memref::LoadOp>(op)) {
      return {};
    }
  }
  if (only.op && !llvm::all_of(only.getBounds(), [&](Value v) {
        return loop.isDefinedOutsideOfLoop(v);
      }))
    return {};
  return only;
}

/// Whether iterations of @inner touch memory that no other of its iterations
/// writes, in whatever iteration of @loop, so that they may run at once: each
/// induction variable is an index, as it is and at the same place, of all
/// accesses to memory that is written. Values that are not views of each other
/// are apart, as kernels' arguments are.
static bool isApart(scf::ForOp loop, const InnerLoop &inner) {
  SmallVector<Access> accesses;
  bool isKnown = true;
  loop.walk([&](Operation *op) {
    if (std::optional<Access> access = getAccess(op))
      accesses.push_back(*access);
    else if (op->getNumRegions() == 0 && !isMemoryEffectFree(op))
      isKnown = false;
  });
  if (!isKnown)
    return false;
  llvm::SmallPtrSet<Value, 4> written;
  for (const Access &access : accesses)
    if (access.isStore)
      written.insert(access.memory);
  /// For each written memory the place of each variable.
  llvm::DenseMap<Value, SmallVector<unsigned>> places;
  for (const Access &access : accesses) {
    // What a view shows may be written by another name.
    auto argument = dyn_cast<BlockArgument>(access.memory);
    bool isArgument =
        argument && isa<func::FuncOp>(argument.getOwner()->getParentOp());
    if (!isArgument && !access.memory.getDefiningOp<memref::GetGlobalOp>() &&
        !access.memory.getDefiningOp<memref::AllocOp>())
      return false;
    if (!written.contains(access.memory))
      continue;
    if (!inner.op->isProperAncestor(access.op))
      return false;
    SmallVector<unsigned> at;
    for (Value variable : inner.variables) {
      auto it = llvm::find(access.indices, variable);
      if (it == access.indices.end())
        return false;
      at.push_back(it - access.indices.begin());
    }
    auto [known, isNew] = places.try_emplace(access.memory, at);
    if (!isNew && known->second != at)
      return false;
  }
  return true;
}

static void interchange(scf::ForOp loop, const InnerLoop &columns) {
  OpBuilder builder(loop);
  Location loc = loop.getLoc();
  auto outer = scf::ParallelOp::create(builder, loc, columns.lower,
                                       columns.upper, columns.step);
  builder.setInsertionPointToStart(outer.getBody());
  auto inner = scf::ForOp::create(builder, loc, loop.getLowerBound(),
                                  loop.getUpperBound(), loop.getStep());
  builder.setInsertionPointToStart(inner.getBody());
  IRMapping mapping;
  mapping.map(loop.getInductionVar(), inner.getInductionVar());
  for (Operation &op : loop.getBody()->without_terminator())
    if (&op != columns.op)
      builder.clone(op, mapping);
  mapping.map(columns.variables, outer.getInductionVars());
  for (Operation &op : columns.body->without_terminator())
    builder.clone(op, mapping);
  loop.erase();
}

namespace {
struct InterchangeLoops : fsdp::impl::InterchangeLoopsBase<InterchangeLoops> {
  void runOnOperation() override {
    SmallVector<scf::ForOp> loops;
    getOperation().walk([&](scf::ForOp loop) { loops.push_back(loop); });
    for (scf::ForOp loop : loops)
      if (InnerLoop inner = getOnlyInner(loop);
          inner.op && isApart(loop, inner))
        interchange(loop, inner);
  }
};
} // namespace
