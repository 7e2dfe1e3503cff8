//===- InsertRandom.cpp - Random numbers that a step is given -------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Analysis/Contract/InputContract.h"
#include "fsdp/Passes/Passes.h"

#include "llvm/ADT/BitVector.h"

namespace mlir::fsdp {
#define GEN_PASS_DEF_INSERTRANDOM
#include "fsdp/Passes/Passes.h.inc"
} // namespace mlir::fsdp

using namespace mlir;
using namespace mlir::fsdp;

static void drawArguments(TracedStep &step) {
  llvm::BitVector drawn(step.func.getNumArguments());
  OpBuilder builder = OpBuilder::atBlockBegin(&step.func.getBody().front());
  for (RandomInfo &info : step.randoms) {
    Value random =
        RandomOp::create(builder, info.arg.getLoc(), info.arg.getType(),
                         info.kind, uint64_t(info.site), info.shared);
    info.arg.replaceAllUsesWith(random);
    drawn.set(info.arg.getArgNumber());
  }
  (void)step.func.eraseArguments(drawn);
}

namespace {
struct InsertRandom : fsdp::impl::InsertRandomBase<InsertRandom> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    if (!module.lookupSymbol<func::FuncOp>(names::kForwardBackward))
      return markAllAnalysesPreserved();
    FailureOr<std::vector<TracedStep>> steps = readTracedSteps(module);
    if (failed(steps))
      return signalPassFailure();
    for (TracedStep &step : *steps)
      drawArguments(step);
  }
};
} // namespace
