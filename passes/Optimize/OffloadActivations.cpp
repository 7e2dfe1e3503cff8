//===- OffloadActivations.cpp - What backward reads waits on the host -----===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "MarkedResults.h"
#include "fsdp/Analysis/Contract/InputContract.h"
#include "fsdp/Analysis/Step/StepArguments.h"
#include "fsdp/Analysis/Step/StepStructure.h"
#include "fsdp/Passes/ArenaPlaces.h"
#include "fsdp/Passes/Passes.h"

#include "mlir/IR/Remarks.h"

namespace mlir::fsdp {
#define GEN_PASS_DEF_OFFLOADACTIVATIONS
#include "fsdp/Passes/Passes.h.inc"
} // namespace mlir::fsdp

using namespace mlir;
using namespace mlir::fsdp;

//===----------------------------------------------------------------------===//
// Analysis
//===----------------------------------------------------------------------===//

namespace {
/// A value of forward that backward is to fetch from the host.
struct Offload {
  OpResult value;
  /// Forward's last reader, or the maker where forward has none.
  Operation *last = nullptr;
  /// Of backward: where it reads the value or a view of it, and the first op
  /// that does.
  SmallVector<OpOperand *> uses;
  Operation *first = nullptr;
};
} // namespace

/// Where ops that are no views read @value, through views as well.
static void collectUses(Value value, SmallVectorImpl<OpOperand *> &uses) {
  for (OpOperand &use : value.getUses()) {
    if (isView(use.getOwner()))
      collectUses(use.getOwner()->getResult(0), uses);
    else
      uses.push_back(&use);
  }
}

/// Why @reader keeps @value from leaving the device; nothing where it does not.
static StringRef getObstacle(Operation *reader) {
  if (reader->hasTrait<OpTrait::IsTerminator>())
    return "that the step does not return";
  if (isa<PackOp>(reader))
    return "with memory of its own, not computed in its place in a pack";
  return "";
}

static FailureOr<Offload> analyze(OpResult value, Operation *loss) {
  Offload offload;
  offload.value = value;
  offload.last = value.getOwner();
  auto refuse = [&](const Twine &what) {
    return value.getOwner()->emitOpError("expected a result ")
           << what << " in " << names::kOffload << ", got result "
           << value.getResultNumber();
  };
  SmallVector<OpOperand *> uses;
  collectUses(value, uses);
  for (OpOperand *use : uses) {
    Operation *reader = use->getOwner();
    if (StringRef obstacle = getObstacle(reader); !obstacle.empty()) {
      auto error = refuse(obstacle);
      error.attachNote(reader->getLoc()) << "it is read here";
      return error;
    }
    if (!loss->isBeforeInBlock(reader)) {
      if (offload.last->isBeforeInBlock(reader))
        offload.last = reader;
      continue;
    }
    offload.uses.push_back(use);
    if (!offload.first || reader->isBeforeInBlock(offload.first))
      offload.first = reader;
  }
  if (!offload.first)
    return refuse("that backward reads");
  return offload;
}

//===----------------------------------------------------------------------===//
// Application
//===----------------------------------------------------------------------===//

static OffloadOp store(const Offload &offload) {
  OpBuilder builder(offload.value.getContext());
  builder.setInsertionPointAfter(offload.last);
  auto type = cast<RankedTensorType>(offload.value.getType());
  return OffloadOp::create(builder, offload.value.getLoc(),
                           HostType::get(type.getContext(), type),
                           offload.value);
}

static void fetch(const Offload &offload, OffloadOp stored) {
  OpBuilder builder(offload.first);
  auto reload = ReloadOp::create(builder, offload.value.getLoc(),
                                 offload.value.getType(), stored.getResult());
  IRMapping views;
  views.map(offload.value, reload.getResult());
  for (OpOperand *use : offload.uses)
    use->set(cloneViews(use->get(), builder, views));
}

static void report(const Offload &offload) {
  auto getName = [](Operation *op) -> StringRef {
    auto launch = dyn_cast<LaunchOp>(op);
    return launch ? launch.getKernel() : op->getName().stripDialect();
  };
  remark::passed(
      offload.value.getLoc(),
      remark::RemarkOpts::name("Offload").category("fsdp-offload-activations"))
      << ("result " + Twine(offload.value.getResultNumber()) + " of " +
          getName(offload.value.getOwner()) +
          " waits on the host from behind " + getName(offload.last) +
          " to before " + getName(offload.first))
             .str();
}

namespace {
struct OffloadActivations
    : fsdp::impl::OffloadActivationsBase<OffloadActivations> {
  void runOnOperation() override {
    ProgramOp step = getOperation();
    Block &block = step.getBody().front();
    Operation *loss = getLossOp(step);
    auto marked = getMarkedResults(block, loss, names::kOffload);
    if (failed(marked))
      return signalPassFailure();
    if (marked->empty())
      return markAllAnalysesPreserved();
    SmallVector<Offload> offloads;
    for (Value value : *marked) {
      FailureOr<Offload> offload = analyze(cast<OpResult>(value), loss);
      if (failed(offload))
        return signalPassFailure();
      offloads.push_back(std::move(*offload));
    }
    // Last first, so that those behind one op stand in their order.
    SmallVector<OffloadOp> stored;
    for (const Offload &offload : llvm::reverse(offloads))
      stored.push_back(store(offload));
    for (auto [offload, copy] : llvm::zip(offloads, llvm::reverse(stored))) {
      report(offload);
      fetch(offload, copy);
    }
    for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block))) {
      op.removeAttr(names::kOffload);
      if (isView(&op) && op.use_empty())
        op.erase();
    }
    removeArenaPlaces(step);
  }
};
} // namespace
