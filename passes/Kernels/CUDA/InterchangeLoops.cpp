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
} // namespace

static std::optional<Access> getAccess(Operation *op) {
  if (auto load = dyn_cast<memref::LoadOp>(op))
    return Access{op, load.getMemRef(), load.getIndices(), false};
  if (auto store = dyn_cast<memref::StoreOp>(op))
    return Access{op, store.getMemRef(), store.getIndices(), true};
  return std::nullopt;
}

/// The parallel loop that is all that @loop does in memory but for loads; null
/// where there is no such one.
static scf::ParallelOp getOnlyParallel(scf::ForOp loop) {
  if (loop.getNumResults() != 0)
    return nullptr;
  scf::ParallelOp only;
  for (Operation &op : loop.getBody()->without_terminator()) {
    if (auto parallel = dyn_cast<scf::ParallelOp>(op)) {
      if (only || parallel.getNumReductions() != 0)
        return nullptr;
      only = parallel;
    } else if (!isMemoryEffectFree(&op) && !isa<memref::LoadOp>(op)) {
      return nullptr;
    }
  }
  if (!only)
    return nullptr;
  for (ValueRange bounds :
       {ValueRange(only.getLowerBound()), ValueRange(only.getUpperBound()),
        ValueRange(only.getStep())})
    if (!llvm::all_of(bounds,
                      [&](Value v) { return loop.isDefinedOutsideOfLoop(v); }))
      return nullptr;
  return only;
}

/// Whether iterations of @parallel touch memory that no other of its iterations
/// writes, in whatever iteration of @loop: each induction variable is an index,
/// as it is and at the same place, of all accesses to memory that is written.
/// Values that are not views of each other are apart, as kernels' arguments
/// are.
static bool isApart(scf::ForOp loop, scf::ParallelOp parallel) {
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
    if (!parallel->isProperAncestor(access.op))
      return false;
    SmallVector<unsigned> at;
    for (Value variable : parallel.getInductionVars()) {
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

static void interchange(scf::ForOp loop, scf::ParallelOp parallel) {
  OpBuilder builder(loop);
  Location loc = loop.getLoc();
  auto outer =
      scf::ParallelOp::create(builder, loc, parallel.getLowerBound(),
                              parallel.getUpperBound(), parallel.getStep());
  builder.setInsertionPointToStart(outer.getBody());
  auto inner = scf::ForOp::create(builder, loc, loop.getLowerBound(),
                                  loop.getUpperBound(), loop.getStep());
  builder.setInsertionPointToStart(inner.getBody());
  IRMapping mapping;
  mapping.map(loop.getInductionVar(), inner.getInductionVar());
  for (Operation &op : loop.getBody()->without_terminator())
    if (&op != parallel)
      builder.clone(op, mapping);
  mapping.map(parallel.getInductionVars(), outer.getInductionVars());
  for (Operation &op : parallel.getBody()->without_terminator())
    builder.clone(op, mapping);
  loop.erase();
}

namespace {
struct InterchangeLoops : fsdp::impl::InterchangeLoopsBase<InterchangeLoops> {
  void runOnOperation() override {
    SmallVector<scf::ForOp> loops;
    getOperation().walk([&](scf::ForOp loop) { loops.push_back(loop); });
    for (scf::ForOp loop : loops)
      if (scf::ParallelOp parallel = getOnlyParallel(loop))
        if (isApart(loop, parallel))
          interchange(loop, parallel);
  }
};
} // namespace
