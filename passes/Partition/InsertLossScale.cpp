//===- InsertLossScale.cpp - What a traced loss is multiplied by ----------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PartitionUtils.h"
#include "fsdp/Analysis/Step/LossScale.h"
#include "fsdp/Passes/Passes.h"

namespace mlir::fsdp {
#define GEN_PASS_DEF_INSERTLOSSSCALE
#include "fsdp/Passes/Passes.h.inc"
} // namespace mlir::fsdp

using namespace mlir;
using namespace mlir::fsdp;

/// The argument becomes an op, or 1 where nothing is scaled.
static void replaceArgument(TracedStep &step, bool isScaled) {
  BlockArgument arg = step.lossScale;
  OpBuilder builder = OpBuilder::atBlockBegin(&step.func.getBody().front());
  Value scale;
  if (isScaled)
    scale = LossScaleOp::create(builder, arg.getLoc(), arg.getType());
  else
    scale = createScalar(builder, arg.getLoc(), builder.getF32Type(), 1);
  arg.replaceAllUsesWith(scale);
  (void)step.func.eraseArgument(arg.getArgNumber());
}

namespace {
struct InsertLossScale : fsdp::impl::InsertLossScaleBase<InsertLossScale> {
  using InsertLossScaleBase::InsertLossScaleBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    if (!module.lookupSymbol<func::FuncOp>(names::kForwardBackward))
      return markAllAnalysesPreserved();
    bool isScaled = !lossScale.empty();
    llvm::Expected<LossScale> parsed =
        isScaled ? LossScale::parse(lossScale) : LossScale();
    if (!parsed) {
      emitInputError(module, llvm::toString(parsed.takeError()));
      return signalPassFailure();
    }
    FailureOr<std::vector<TracedStep>> steps = readTracedSteps(module);
    if (failed(steps))
      return signalPassFailure();
    for (TracedStep &step : *steps) {
      if (step.lossScale) {
        if (isScaled && getTraits(step.kind).hasBackward &&
            step.lossScale.use_empty()) {
          emitInputError(step.func, "expected a step that multiplies by its "
                                    "fsdp.loss_scale beside loss-scale ")
              << lossScale << ", got one that does not read it";
          return signalPassFailure();
        }
        replaceArgument(step, isScaled);
      } else if (isScaled && getTraits(step.kind).hasBackward) {
        emitInputError(step.func, "expected an argument of @")
            << step.func.getName() << " with fsdp.loss_scale beside loss-scale "
            << lossScale
            << ", got none: export the step with fsdp-export --loss-scale";
        return signalPassFailure();
      }
    }
  }
};
} // namespace
