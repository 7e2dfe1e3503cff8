//===- StepScheduler.cpp - Plan, order and arena within a budget ----------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Target/StepScheduler.h"
#include "fsdp/Analysis/Cost/Cluster.h"
#include "fsdp/Analysis/InputContract.h"
#include "fsdp/Passes/Passes.h"
#include "fsdp/Target/Planner.h"

#include "mlir/Pass/PassManager.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace mlir::fsdp;

static llvm::Error makeError(const llvm::Twine &message) {
  return llvm::createStringError(llvm::inconvertibleErrorCode(), message);
}

llvm::Expected<StepScheduler>
StepScheduler::create(const ScheduleOptions &options, const StepOptions &step,
                      StringRef toolDir) {
  StepScheduler result;
  result.options = options;
  result.reshardAfterForward = step.reshardAfterForward;
  result.recompute = step.recompute;
  result.bucket = step.bucket;
  auto file = findCluster(options.cluster, toolDir);
  if (!file)
    return file.takeError();
  result.clusterFile = *file;
  auto cluster = loadCluster(*file);
  if (!cluster)
    return cluster.takeError();
  result.clusterName = cluster->name;
  result.reserved = cluster->device.reservedBytes;
  result.budget = cluster->device.getUsableBytes();
  if (!options.memoryBudget.empty()) {
    auto bytes = parseBytes(options.memoryBudget);
    if (!bytes)
      return bytes.takeError();
    result.budget = *bytes - result.reserved;
  }
  return result;
}

/// What the arena of the step takes when it is planned for @budget bytes.
llvm::Expected<int64_t> StepScheduler::attempt(Frontend &frontend,
                                               int64_t budget) const {
  auto build = [&](OpPassManager &pm) {
    if (options.order == "scheduled") {
      OptimizeOptions optimize;
      optimize.cluster = clusterFile;
      optimize.budget = budget;
      optimize.reshardAfterForward = reshardAfterForward;
      optimize.recompute = recompute;
      optimize.bucket = bucket;
      buildOptimizePipeline(pm, optimize);
    }
    ScheduleStepOptions schedule;
    schedule.cluster = clusterFile;
    schedule.order = options.order;
    schedule.budget = budget;
    schedule.shrink = true;
    schedule.forwardPrefetch = options.forwardPrefetch;
    schedule.backwardPrefetch = options.backwardPrefetch;
    schedule.limitAllGathers = options.limitAllGathers;
    pm.addPass(createPlanArena({/*draft=*/true}));
    pm.addPass(createScheduleStep(schedule));
    pm.addPass(createPlanArena());
  };
  if (llvm::Error error = frontend.runPipeline("plan and schedule", build))
    return error;
  auto step = frontend.getModule().lookupSymbol<func::FuncOp>(names::kStep);
  return step->getAttrOfType<DictionaryAttr>(names::kArena)
      .getAs<IntegerAttr>("bytes")
      .getInt();
}

/// "step 412.3 ms, bound 406.8 ms, gap 1.4 %".
void StepScheduler::report(ModuleOp module, int64_t bytes) const {
  auto schedule = module.lookupSymbol<func::FuncOp>(names::kStep)
                      ->getAttrOfType<DictionaryAttr>(names::kSchedule);
  auto get = [&](StringRef key) {
    return toSeconds(schedule.getAs<IntegerAttr>(key).getInt()) * 1e3;
  };
  double step = get("step"), bound = get("bound");
  llvm::errs() << llvm::formatv(
      "step {0:f3} ms, bound {1:f3} ms, gap {2:f1} %, on {3}; arena {4:f1} MiB "
      "of {5:f1}\n",
      step, bound, bound > 0 ? 100 * (step - bound) / bound : 0, clusterName,
      bytes / 1048576.0, budget / 1048576.0);
}

llvm::Error StepScheduler::run(Frontend &frontend) const {
  // Room for gaps shrinks by what was missing, and by something where that is
  // next to nothing.
  constexpr int kAttempts = 6;
  OwningOpRef<ModuleOp> original(frontend.getModule().clone());
  int64_t model = std::max<int64_t>(budget, 1), needed = 0;
  for (int i = 0; i <= kAttempts; ++i) {
    // The last one takes as little as possible. Orders without a plan take what
    // they take.
    bool isLast = i == kAttempts || model <= 1 || options.order != "scheduled";
    auto bytes = attempt(frontend, isLast ? 1 : model);
    if (!bytes)
      return bytes.takeError();
    if (*bytes <= budget) {
      report(frontend.getModule(), *bytes);
      return llvm::Error::success();
    }
    needed = needed ? std::min(needed, *bytes) : *bytes;
    if (isLast)
      break;
    model -= std::max(*bytes - budget, budget / 64 + 1);
    frontend.setModule(OwningOpRef<ModuleOp>(original->clone()));
  }
  int64_t whole = needed + reserved;
  return makeError(llvm::formatv(
      "expected a memory budget of at least {0} bytes ({1:f2} GiB: {2:f2} for "
      "the arena and {3:f2} for driver and libraries, reserved_gib in {4}), "
      "got {5}",
      whole, whole / 1073741824.0, needed / 1073741824.0,
      reserved / 1073741824.0, clusterFile, budget + reserved));
}
