//===- GroupCollectives.cpp - Transfers that are issued together ----------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Analysis/Contract/InputContract.h"
#include "fsdp/Analysis/Step/StepArguments.h"
#include "fsdp/Analysis/Step/StepStructure.h"
#include "fsdp/Passes/ArenaPlaces.h"
#include "fsdp/Passes/Passes.h"

#include "mlir/Analysis/SliceAnalysis.h"
#include "llvm/ADT/MapVector.h"

namespace mlir::fsdp {
#define GEN_PASS_DEF_GROUPCOLLECTIVES
#include "fsdp/Passes/Passes.h.inc"
} // namespace mlir::fsdp

using namespace mlir;
using namespace mlir::fsdp;

/// What fsdp.start's body may hold; all before or all behind @loss.
static LogicalResult verifyGroup(ArrayRef<CollectiveOpInterface> group,
                                 Operation *loss) {
  CollectiveOpInterface first = group.front();
  for (CollectiveOpInterface op : group.drop_front()) {
    const char *what = nullptr;
    if (op->getName() != first->getName())
      what = "kind";
    else if (op.getMeshAttr() != first.getMeshAttr() ||
             op.getAxesAttr() != first.getAxesAttr())
      what = "group of ranks";
    else if (loss && op->isBeforeInBlock(loss) != first->isBeforeInBlock(loss))
      what = "phase";
    if (!what)
      continue;
    auto error = op->emitOpError("expected collectives of one ")
                 << what << " in " << names::kGroup << " "
                 << op->getAttr(names::kGroup) << ", got another one";
    error.attachNote(first->getLoc()) << "it begins here";
    return error;
  }
  return success();
}

/// Gathers come where the first of them stood, with what makes what they send;
/// that is no transfer.
static LogicalResult hoist(ArrayRef<CollectiveOpInterface> group) {
  Operation *place = group.front();
  BackwardSliceOptions options;
  options.filter = [&](Operation *op) {
    return op->getBlock() == place->getBlock() && place->isBeforeInBlock(op);
  };
  SetVector<Operation *> makers;
  for (CollectiveOpInterface op : group.drop_front())
    if (failed(getBackwardSlice(op.getOperation(), &makers, options)))
      return op->emitOpError("expected an input that can be followed");
  for (Operation *maker : makers) {
    if (isa<TransferOpInterface>(maker)) {
      auto error = group.front()->emitOpError(
          "expected a group whose gathers send nothing that is transferred "
          "behind the first of them");
      error.attachNote(maker->getLoc()) << "one sends what this brings";
      return error;
    }
    maker->moveBefore(place);
  }
  for (CollectiveOpInterface op : group.drop_front()) {
    op->moveAfter(place);
    place = op;
  }
  return success();
}

/// Reductions come where the last of them stood, and what is computed from them
/// behind that.
static void sink(ArrayRef<CollectiveOpInterface> group) {
  CollectiveOpInterface last = group.back();
  SetVector<Operation *> followers;
  for (CollectiveOpInterface op : group.drop_back())
    getForwardSlice(op.getOperation(), &followers);
  SmallVector<Operation *> behind;
  for (Operation *op : followers)
    if (op->getBlock() == last->getBlock() && op->isBeforeInBlock(last))
      behind.push_back(op);
  llvm::sort(behind,
             [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
  for (CollectiveOpInterface op : group.drop_back())
    op->moveBefore(last);
  Operation *place = last;
  for (Operation *op : behind) {
    op->moveAfter(place);
    place = op;
  }
}

namespace {
struct GroupCollectives : fsdp::impl::GroupCollectivesBase<GroupCollectives> {
  void runOnOperation() override {
    ProgramOp step = getOperation();
    llvm::MapVector<int32_t, SmallVector<CollectiveOpInterface>> groups;
    for (auto collective : step.getOps<CollectiveOpInterface>())
      if (std::optional<int32_t> number = getGroup(collective))
        groups[*number].push_back(collective);
    if (groups.empty())
      return markAllAnalysesPreserved();
    Operation *loss = getLossOp(step);
    for (auto &[number, group] : groups) {
      if (failed(verifyGroup(group, loss)))
        return signalPassFailure();
      // A group that reads what another one of its ops brings would wait for
      // itself.
      for (CollectiveOpInterface op : group) {
        SetVector<Operation *> followers;
        getForwardSlice(op.getOperation(), &followers);
        for (CollectiveOpInterface other : group)
          if (followers.contains(other)) {
            auto error = other->emitOpError(
                "expected collectives of a group to be independent of each "
                "other, got one that reads another's result");
            error.attachNote(op->getLoc()) << "it reads what this brings";
            return signalPassFailure();
          }
      }
      if (!isa<AllGatherOp>(group.front().getOperation()))
        sink(group);
      else if (failed(hoist(group)))
        return signalPassFailure();
    }
    removeArenaPlaces(step);
  }
};
} // namespace
