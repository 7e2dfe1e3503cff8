//===- TimeStep.cpp - What a placed step takes ----------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Analysis/Contract/InputContract.h"
#include "fsdp/Analysis/Step/StepBudget.h"
#include "fsdp/Analysis/Step/StepExtraction.h"
#include "fsdp/Cost/ClusterFile.h"
#include "fsdp/Passes/Passes.h"
#include "fsdp/Schedule/ClusterCost.h"
#include "fsdp/Schedule/Timeline.h"

namespace mlir::fsdp {
#define GEN_PASS_DEF_TIMESTEP
#include "fsdp/Passes/Passes.h.inc"
} // namespace mlir::fsdp

using namespace mlir;
using namespace mlir::fsdp;

/// The time of the step in its order: packing adds copies to a step, of what
/// could not be computed in its place.
static llvm::Expected<Time> getTime(const ExtractedStep &step,
                                    const Cluster &cluster) {
  if (failed(step.program))
    return llvm::createStringError("expected a step that can be timed");
  auto cost = createClusterCost(cluster, *step.program);
  if (!cost)
    return cost.takeError();
  return sched::play(addTimes(*step.program, *cost->model, cost->placements))
      .step;
}

namespace {
struct TimeStep : fsdp::impl::TimeStepBase<TimeStep> {
  using TimeStepBase::TimeStepBase;

  void runOnOperation() override {
    ProgramOp step = getOperation();
    if (!step.getScheduleAttr())
      return markAllAnalysesPreserved();
    if (llvm::Error error = run(step)) {
      emitInputError(step, llvm::toString(std::move(error)));
      signalPassFailure();
    }
  }

  llvm::Error run(ProgramOp step) {
    ArenaAttr arena = step.getArenaAttr();
    if (!arena || !arena.getPeak())
      return llvm::createStringError(
          "expected a planned arena (run fsdp-plan-arena first), got none");
    if (cluster.empty())
      return llvm::createStringError("expected the option cluster to name a "
                                     "cluster file, got none");
    auto description = loadCluster(cluster);
    if (!description)
      return description.takeError();
    description->stepProfile = profile;
    auto order = step->getAttrOfType<StepOrderAttr>(names::kOrder);
    if (order && order.getArena() != arena.getBytes())
      return llvm::createStringError(
          "internal error: expected an arena of " + Twine(order.getArena()) +
          " bytes, as planned, got " + Twine(arena.getBytes()));
    std::optional<int64_t> budget =
        getArenaBudget(step->getParentOfType<ModuleOp>());
    if (budget && arena.getBytes() > *budget)
      return llvm::createStringError(
          describeMisfit(step, arena.getBytes(), *description, cluster));
    llvm::Expected<Time> time =
        getTime(getAnalysis<ExtractedStep>(), *description);
    if (!time)
      return time.takeError();
    // What is written below is no part of it.
    markAnalysesPreserved<ExtractedStep>();
    ScheduleAttr schedule = step.getScheduleAttr();
    step.setScheduleAttr(ScheduleAttr::get(
        &getContext(), schedule.getOrder(), schedule.getBound(), *time,
        schedule.getMachine(), schedule.getLimit(), schedule.getPeakFlops()));
    step->removeAttr(names::kOrder);
    return llvm::Error::success();
  }
};
} // namespace
