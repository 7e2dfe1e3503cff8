//===- HoistUpdates.cpp - Updates beside backward -------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Analysis/Step/ArenaPlan.h"
#include "fsdp/Analysis/Step/ProgramStates.h"
#include "fsdp/Analysis/Step/StepArguments.h"
#include "fsdp/Cost/FormatBytes.h"
#include "fsdp/Passes/ArenaPlaces.h"
#include "fsdp/Passes/Passes.h"

#include "mlir/Analysis/SliceAnalysis.h"

namespace mlir::fsdp {
#define GEN_PASS_DEF_HOISTUPDATES
#include "fsdp/Passes/Passes.h.inc"
} // namespace mlir::fsdp

using namespace mlir;
using namespace mlir::fsdp;

//===----------------------------------------------------------------------===//
// Analysis
//===----------------------------------------------------------------------===//

/// Whether @launch makes new values of states that are laid out like a flat
/// parameter, or what is copied to the host as such.
static bool updatesShard(LaunchOp launch, const ProgramStates &states) {
  auto isWritten = [&](OpOperand &use) {
    StateOp state = isa<fsdp::ReturnOp>(use.getOwner())
                        ? states.getWritten(use.getOperandNumber())
                        : StateOp();
    return state && state.getFlatParamAttr() &&
           state.getKind() != StateKind::accumulator &&
           state.getKind() != StateKind::residual;
  };
  return llvm::any_of(launch->getUses(), [&](OpOperand &use) {
    return isWritten(use) ||
           (isa<OffloadOp>(use.getOwner()) &&
            llvm::any_of(use.getOwner()->getUses(), isWritten));
  });
}

/// Whether @launch reads what was reloaded of a state on the host.
static bool reloadsState(LaunchOp launch) {
  return llvm::any_of(launch->getOperands(), [](Value operand) {
    auto reload = operand.getDefiningOp<ReloadOp>();
    return reload && isa<BlockArgument>(reload.getInput());
  });
}

//===----------------------------------------------------------------------===//
// Decision
//===----------------------------------------------------------------------===//

namespace {
struct Hoist {
  /// In order, the update last.
  SmallVector<Operation *> ops;
  Operation *before = nullptr;
};
} // namespace

/// Where @update can run: before the first reduction after the last one that it
/// depends on, so that compute between the two hides that one. Nothing where
/// there is none (the norm that clips is the last), or where states of flat
/// parameters that the moved ops read are read later, too: the update could not
/// write over them.
static Hoist decide(LaunchOp update, const ProgramStates &states) {
  Operation *last = nullptr;
  BackwardSliceOptions options;
  options.inclusive = options.omitBlockArguments = true;
  // What reductions are computed of is before them in the block.
  options.filter = [&](Operation *op) {
    if (isReduction(op) && (!last || last->isBeforeInBlock(op)))
      last = op;
    return !isReduction(op);
  };
  llvm::SetVector<Operation *> slice;
  if (failed(getBackwardSlice(update.getOperation(), &slice, options)))
    return {};
  if (!last)
    return {};
  Hoist hoist;
  for (hoist.before = last->getNextNode();
       hoist.before && !isReduction(hoist.before);
       hoist.before = hoist.before->getNextNode())
    ;
  if (!hoist.before || update->isBeforeInBlock(hoist.before))
    return {};
  for (Operation *op : slice)
    if (!op->isBeforeInBlock(hoist.before))
      hoist.ops.push_back(op);
  llvm::sort(hoist.ops,
             [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
  bool canMove = llvm::all_of(hoist.ops, [&](Operation *op) {
    return isa<LaunchOp, ReloadOp>(op) || isView(op);
  });
  auto isNotMoved = [&](Operation *reader) {
    return !isa<fsdp::ReturnOp>(reader) && !slice.contains(reader);
  };
  for (Operation *op : hoist.ops)
    for (Value operand : op->getOperands()) {
      if (auto copy = operand.getDefiningOp<ReloadOp>();
          copy && isa<BlockArgument>(copy.getInput()))
        canMove &=
            !isReadAfter(operand, hoist.before->getPrevNode(), isNotMoved);
      if (auto arg = dyn_cast<BlockArgument>(getWholeValue(operand)))
        if (StateOp state = states.getRead(arg.getArgNumber());
            state && state.getFlatParamAttr())
          canMove &= !isReadAfter(arg, hoist.before->getPrevNode(), isNotMoved);
    }
  return canMove ? hoist : Hoist();
}

//===----------------------------------------------------------------------===//
// Application
//===----------------------------------------------------------------------===//

static void apply(LaunchOp update, const Hoist &hoist) {
  for (Operation *op : hoist.ops)
    op->moveBefore(hoist.before);
  Operation *place = update;
  for (Operation *user : llvm::to_vector(update->getUsers()))
    if (isa<OffloadOp>(user)) {
      user->moveAfter(place);
      place = user;
    }
}

namespace {
struct HoistUpdates : fsdp::impl::HoistUpdatesBase<HoistUpdates> {
  using HoistUpdatesBase::HoistUpdatesBase;

  void runOnOperation() override {
    ProgramOp program = getOperation();
    ProgramStates states(program);
    int64_t updates = 0, moved = 0;
    FailureOr<ArenaPlan> before = failure();
    if (all && failed(before = planArena(program)))
      return signalPassFailure();
    for (LaunchOp update :
         llvm::to_vector(program.getBody().front().getOps<LaunchOp>())) {
      if (!updatesShard(update, states) || !(all || reloadsState(update)))
        continue;
      ++updates;
      if (Hoist hoist = decide(update, states); hoist.before) {
        apply(update, hoist);
        ++moved;
      }
    }
    if (moved == 0)
      markAllAnalysesPreserved();
    else
      removeArenaPlaces(program);
    if (!all || !getTraits(program.getKind()).updates)
      return;
    FailureOr<ArenaPlan> after = planArena(program);
    if (failed(after))
      return signalPassFailure();
    program.emitRemark() << moved << " of " << updates
                         << " updates in backward: the arena takes "
                         << formatBytes(after->totalBytes) << ", "
                         << formatBytes(before->totalBytes)
                         << " with updates behind it";
  }
};
} // namespace
