//===- PlanArena.cpp - Places in the rank's arena -------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Analysis/Contract/InputContract.h"
#include "fsdp/Analysis/Contract/TensorSizes.h"
#include "fsdp/Analysis/Step/ArenaPlan.h"
#include "fsdp/Analysis/Step/GuardPlan.h"
#include "fsdp/Analysis/Step/ProgramStates.h"
#include "fsdp/Analysis/Step/StepArguments.h"
#include "fsdp/Analysis/Step/StepStructure.h"
#include "fsdp/Passes/Passes.h"

namespace mlir::fsdp {
#define GEN_PASS_DEF_PLANARENA
#include "fsdp/Passes/Passes.h.inc"
} // namespace mlir::fsdp

using namespace mlir;
using namespace mlir::fsdp;

/// Places are sums of sizes: none may be more than can be counted.
static LogicalResult checkSizes(ProgramOp step) {
  auto check = [](Location loc, Type type) -> LogicalResult {
    if (isOfCountableBytes(type))
      return success();
    return emitError(loc) << "expected tensors of at most " << kMostTensorBytes
                          << " bytes in a step, got " << type;
  };
  for (BlockArgument arg : step.getArguments())
    if (failed(check(arg.getLoc(), arg.getType())))
      return failure();
  WalkResult result = step.walk([&](Operation *op) {
    for (Type type : op->getResultTypes())
      if (failed(check(op->getLoc(), type)))
        return WalkResult::interrupt();
    return WalkResult::advance();
  });
  return failure(result.wasInterrupted());
}

/// Whether @value is computed of all that was read of @arg. Then no order of
/// the program writes it over what is yet to be read.
static bool dependsOnAllReads(Value value, BlockArgument arg) {
  return llvm::all_of(arg.getUsers(), [&](Operation *user) {
    return isa<fsdp::ReturnOp>(user) || dependsOn(value, user);
  });
}

/// Nothing copies within the host's memory: a state there is written in its
/// place.
static LogicalResult checkReplacedOnHost(ProgramOp step,
                                         const ArenaPlan &plan) {
  for (auto [result, arg] : getReplacedArguments(step)) {
    Value value = step.getReturn().getOperand(result);
    bool isInPlace = plan.offsets.lookup(value) == plan.offsets.lookup(arg);
    if (!isa<HostType>(arg.getType()) || value == arg ||
        (isInPlace && dependsOnAllReads(value, arg)))
      continue;
    InFlightDiagnostic diag = step.emitError("expected the new value of ")
                              << step.getWrittenState(result)
                              << ", which is written over the old one in the "
                                 "host's memory, to depend on each fsdp.reload "
                                 "of the old one";
    diag.attachNote(value.getLoc()) << "the new value is here";
    return diag;
  }
  return success();
}

/// The sizes. What a draft needs at once is not known.
static ArenaAttr getSummary(MLIRContext *context, const ArenaPlan &plan,
                            bool isDraft, int64_t border) {
  return ArenaAttr::get(context, plan.totalBytes, plan.segmentBytes[0],
                        plan.segmentBytes[1], plan.segmentBytes[2],
                        plan.segmentBytes[3], plan.segmentBytes[4],
                        plan.hostBytes, border,
                        isDraft ? DenseI64ArrayAttr()
                                : DenseI64ArrayAttr::get(context, plan.atPeak));
}

namespace {
struct PlanArena : fsdp::impl::PlanArenaBase<PlanArena> {
  using PlanArenaBase::PlanArenaBase;

  void runOnOperation() override {
    ProgramOp step = getOperation();
    for (Operation &op : step.getBody().front())
      if (!isa<FSDPDialect>(op.getDialect()) &&
          !isa<fsdp::ReturnOp, tensor::ExpandShapeOp, tensor::CollapseShapeOp>(
              op)) {
        op.emitOpError("expected a step of launches, transfers and views "
                       "(run fsdp-outline-kernels first)");
        return signalPassFailure();
      }
    int64_t border = guard ? kGuardBorder : 0;
    if (failed(checkSizes(step)) ||
        failed(checkStateLayout(step->getParentOfType<ModuleOp>(),
                                kArenaAlignment, border)))
      return signalPassFailure();
    FailureOr<ArenaPlan> plan = planArena(step, {draft, border});
    if (failed(plan) || failed(checkReplacedOnHost(step, *plan)))
      return signalPassFailure();
    Builder builder(&getContext());
    for (BlockArgument arg : step.getArguments())
      step.setArgAttr(arg.getArgNumber(), names::kOffset,
                      builder.getI64IntegerAttr(plan->offsets.lookup(arg)));
    step.walk([&](Operation *op) {
      SmallVector<int64_t> offsets;
      for (Value result : op->getResults())
        if (!isa<TokenType>(result.getType()))
          offsets.push_back(plan->offsets.lookup(result));
      if (!offsets.empty())
        op->setAttr(names::kOffsets, builder.getDenseI64ArrayAttr(offsets));
    });
    step.setArenaAttr(getSummary(&getContext(), *plan, draft, border));
  }
};
} // namespace
