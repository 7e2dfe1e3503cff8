//===- VerifyInput.cpp - Checks the input contract ------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Analysis/Contract/BodyContract.h"
#include "fsdp/Analysis/Contract/InputContract.h"
#include "fsdp/Analysis/Contract/ModuleContract.h"
#include "fsdp/Analysis/Contract/OptimizerContract.h"
#include "fsdp/Passes/IsolateStep.h"
#include "fsdp/Passes/Passes.h"

#include "mlir/IR/OwningOpRef.h"

namespace mlir::fsdp {
#define GEN_PASS_DEF_VERIFYINPUT
#include "fsdp/Passes/Passes.h.inc"
} // namespace mlir::fsdp

using namespace mlir;
using namespace mlir::fsdp;

namespace {
struct VerifyInput : fsdp::impl::VerifyInputBase<VerifyInput> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    markAllAnalysesPreserved();
    // Functions first: the rules of ops hold for a step without calls.
    OwningOpRef<ModuleOp> inlined;
    if (module.lookupSymbol<func::FuncOp>(names::kForwardBackward)) {
      if (failed(verifyInputModule(module)))
        return signalPassFailure();
      if (hasHelpers(module)) {
        inlined = module.clone();
        isolateStep(*inlined);
        module = *inlined;
      }
    }
    FailureOr<std::vector<TracedStep>> steps = readTracedSteps(module);
    if (failed(steps))
      return signalPassFailure();
    for (TracedStep &step : *steps)
      if (failed(verifyStepBody(step.func)))
        return signalPassFailure();
    if (!module.lookupSymbol(names::kOptimizer))
      return;
    FailureOr<OptimizerFunction> optimizer = readOptimizer(module);
    if (failed(optimizer) || failed(verifyOptimizerBody(optimizer->func)))
      return signalPassFailure();
  }
};
} // namespace
