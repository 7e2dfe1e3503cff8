//===- PlanStep.cpp - What a step keeps, repeats and groups ---------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Analysis/Contract/InputContract.h"
#include "fsdp/Analysis/Step/StepBudget.h"
#include "fsdp/Analysis/Step/StepExtraction.h"
#include "fsdp/Analysis/Step/StepStructure.h"
#include "fsdp/Cost/ClusterFile.h"
#include "fsdp/Passes/ArenaPlaces.h"
#include "fsdp/Passes/Passes.h"
#include "fsdp/Passes/ProgramPlan.h"

namespace mlir::fsdp {
#define GEN_PASS_DEF_PLANSTEP
#include "fsdp/Passes/Passes.h.inc"
} // namespace mlir::fsdp

using namespace mlir;
using namespace mlir::fsdp;
using namespace mlir::fsdp::sched;

namespace {
struct PlanStep : fsdp::impl::PlanStepBase<PlanStep> {
  using PlanStepBase::PlanStepBase;

  void runOnOperation() override {
    ProgramOp step = getOperation();
    if (llvm::Error error = run(step)) {
      emitInputError(step, llvm::toString(std::move(error)));
      signalPassFailure();
    }
  }

  /// The option, what the module may take, or what the device has.
  int64_t getBudget(ProgramOp step, const Cluster &cluster) {
    if (budget)
      return budget;
    auto module = step->getParentOfType<ModuleOp>();
    return getArenaBudget(module).value_or(cluster.device.getUsableBytes());
  }

  llvm::Error refuse(ProgramOp step, int64_t needed,
                     const Cluster &description) {
    auto module = step->getParentOfType<ModuleOp>();
    if (!budget && getArenaBudget(module))
      return llvm::createStringError(
          describeMisfit(step, needed, description, cluster));
    return llvm::createStringError("expected a budget of at least " +
                                   llvm::Twine(needed) + " bytes, got " +
                                   llvm::Twine(getBudget(step, description)));
  }

  llvm::Error run(ProgramOp step) {
    if (budget < 0)
      return llvm::createStringError(
          "expected a budget of at least 0 bytes (0: what the device has), "
          "got " +
          llvm::Twine(budget));
    if (cluster.empty())
      return llvm::createStringError("expected the option cluster to name a "
                                     "cluster file, got none");
    auto description = loadCluster(cluster);
    if (!description)
      return description.takeError();
    description->stepProfile = profile;
    if (failed(expectUnscheduled(step)))
      return llvm::createStringError("expected a step that can be planned");
    // A program that has its order has been planned.
    if (!step->hasAttr(names::kOrder)) {
      auto &extracted = getAnalysis<ExtractedStep>();
      auto plan = findPlan(
          extracted, *description, getBudget(step, *description),
          {reshardAfterForward, recompute, offload, bucket, std::nullopt});
      if (!plan)
        return plan.takeError();
      if (!plan->fits())
        return refuse(step, plan->leastBytes, *description);
      if (failed(writePlan(step, extracted, *plan)))
        return llvm::createStringError("expected a plan that can be written");
    }
    // They hold for the step as it was.
    removeArenaPlaces(step);
    return llvm::Error::success();
  }
};
} // namespace
