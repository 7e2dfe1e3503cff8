//===- KeepGathered.cpp - Gathered parameters stay for backward -----------===//
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

namespace mlir::fsdp {
#define GEN_PASS_DEF_KEEPGATHERED
#include "fsdp/Passes/Passes.h.inc"
} // namespace mlir::fsdp

using namespace mlir;
using namespace mlir::fsdp;

/// Its readers read what @earlier brought. The cast and the copy from the host
/// that it alone read go with it.
static void replace(AllGatherOp gather, AllGatherOp earlier) {
  gather.replaceAllUsesWith(earlier.getResult());
  SmallVector<Operation *> unread = {gather};
  while (!unread.empty()) {
    Operation *op = unread.pop_back_val();
    llvm::SmallSetVector<Operation *, 2> read;
    for (Value operand : op->getOperands())
      if (Operation *def = operand.getDefiningOp();
          isa_and_present<LaunchOp, ReloadOp>(def))
        read.insert(def);
    op->erase();
    for (Operation *def : read)
      if (def->use_empty())
        unread.push_back(def);
  }
}

namespace {
struct KeepGathered : fsdp::impl::KeepGatheredBase<KeepGathered> {
  void runOnOperation() override {
    ProgramOp step = getOperation();
    SmallVector<std::pair<AllGatherOp, AllGatherOp>> kept;
    for (auto gather : step.getOps<AllGatherOp>()) {
      if (!gather->hasAttr(names::kKeep))
        continue;
      AllGatherOp earlier = getEarlierGather(gather);
      if (!earlier) {
        gather.emitOpError("expected ")
            << names::kKeep << " on a gather of what was gathered before, got "
            << "the first gather of these bytes";
        return signalPassFailure();
      }
      kept.push_back({gather, earlier});
    }
    if (kept.empty())
      return markAllAnalysesPreserved();
    for (auto [gather, earlier] : kept)
      replace(gather, earlier);
    removeArenaPlaces(step);
  }
};
} // namespace
