//===- InterchangeLoops.cpp - Parallel loops around sequential ones -------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Passes/Passes.h"

#include "mlir/Dialect/Arith/Utils/Utils.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Interfaces/LoopLikeInterface.h"
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
} // namespace

static std::optional<Access> getAccess(Operation *op) {
  if (auto load = dyn_cast<memref::LoadOp>(op))
    return Access{op, load.getMemRef(), load.getIndices(), false};
  if (auto store = dyn_cast<memref::StoreOp>(op))
    return Access{op, store.getMemRef(), store.getIndices(), true};
  return std::nullopt;
}

/// The scf.for or scf.parallel without results that is all that @loop does in
/// memory but for loads, and whose bounds do not depend on @loop's iterations;
/// null where there is no such one.
static LoopLikeOpInterface getOnlyInner(scf::ForOp loop) {
  if (loop.getNumResults() != 0)
    return nullptr;
  LoopLikeOpInterface only;
  for (Operation &op : loop.getBody()->without_terminator()) {
    if (isa<scf::ForOp, scf::ParallelOp>(op) && op.getNumResults() == 0) {
      if (only)
        return nullptr;
      only = cast<LoopLikeOpInterface>(op);
    } else if (!isMemoryEffectFree(&op) && !isa<memref::LoadOp>(op)) {
      return nullptr;
    }
  }
  // Bounds and steps are all of its operands.
  if (only && !llvm::all_of(only->getOperands(), [&](Value bound) {
        return loop.isDefinedOutsideOfLoop(bound);
      }))
    return nullptr;
  return only;
}

/// Whether iterations of @inner touch memory that no other of its iterations
/// writes, in whatever iteration of @loop, so that they may run at once: each
/// induction variable is an index, as it is and at the same place, of all
/// accesses to memory that is written. Values that are not views of each other
/// are apart, as kernels' arguments are.
static bool isApart(scf::ForOp loop, LoopLikeOpInterface inner) {
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
  SmallVector<Value> variables = *inner.getLoopInductionVars();
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
    if (!inner->isProperAncestor(access.op))
      return false;
    SmallVector<unsigned> at;
    for (Value variable : variables) {
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

static void interchange(scf::ForOp loop, LoopLikeOpInterface columns) {
  OpBuilder builder(loop);
  Location loc = loop.getLoc();
  auto getValues = [&](ArrayRef<OpFoldResult> bounds) {
    return getValueOrCreateConstantIndexOp(builder, loc, bounds);
  };
  auto outer = scf::ParallelOp::create(builder, loc,
                                       getValues(*columns.getLoopLowerBounds()),
                                       getValues(*columns.getLoopUpperBounds()),
                                       getValues(*columns.getLoopSteps()));
  builder.setInsertionPointToStart(outer.getBody());
  auto inner = scf::ForOp::create(builder, loc, loop.getLowerBound(),
                                  loop.getUpperBound(), loop.getStep());
  builder.setInsertionPointToStart(inner.getBody());
  IRMapping mapping;
  mapping.map(loop.getInductionVar(), inner.getInductionVar());
  for (Operation &op : loop.getBody()->without_terminator())
    if (&op != columns.getOperation())
      builder.clone(op, mapping);
  mapping.map(*columns.getLoopInductionVars(), outer.getInductionVars());
  for (Operation &op :
       columns.getLoopRegions().front()->front().without_terminator())
    builder.clone(op, mapping);
  loop.erase();
}

namespace {
struct InterchangeLoops : fsdp::impl::InterchangeLoopsBase<InterchangeLoops> {
  void runOnOperation() override {
    SmallVector<scf::ForOp> loops;
    getOperation().walk([&](scf::ForOp loop) { loops.push_back(loop); });
    for (scf::ForOp loop : loops)
      if (LoopLikeOpInterface inner = getOnlyInner(loop);
          inner && isApart(loop, inner))
        interchange(loop, inner);
  }
};
} // namespace
