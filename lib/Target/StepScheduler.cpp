//===- StepScheduler.cpp - Plan, order and arena within a budget ----------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Target/StepScheduler.h"
#include "fsdp/Analysis/Cost/Cluster.h"
#include "fsdp/Analysis/InputContract.h"
#include "fsdp/Analysis/StepArguments.h"
#include "fsdp/Passes/Passes.h"
#include "fsdp/Target/BudgetSearch.h"
#include "fsdp/Target/Planner.h"

#include "mlir/Pass/PassManager.h"
#include "llvm/Support/FormatVariadic.h"

#include <algorithm>
#include <optional>

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
  result.offload = step.offload;
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

llvm::Error StepScheduler::plan(Frontend &frontend, int64_t budget) const {
  if (options.order != "scheduled")
    return llvm::Error::success();
  OptimizeOptions optimize;
  optimize.cluster = clusterFile;
  optimize.budget = budget;
  optimize.reshardAfterForward = reshardAfterForward;
  optimize.recompute = recompute;
  optimize.offload = offload;
  optimize.bucket = bucket;
  return frontend.runPipeline(
      "plan", [&](OpPassManager &pm) { buildOptimizePipeline(pm, optimize); });
}

/// What the arena of the planned step takes when it is ordered for @budget
/// bytes.
llvm::Expected<int64_t> StepScheduler::order(Frontend &frontend,
                                             int64_t budget) const {
  ScheduleStepOptions schedule;
  schedule.cluster = clusterFile;
  schedule.order = options.order;
  schedule.budget = budget;
  schedule.shrink = true;
  schedule.forwardPrefetch = options.forwardPrefetch;
  schedule.backwardPrefetch = options.backwardPrefetch;
  schedule.limitAllGathers = options.limitAllGathers;
  auto build = [&](OpPassManager &pm) {
    pm.addPass(createPlanArena({/*draft=*/true}));
    pm.addPass(createScheduleStep(schedule));
    pm.addPass(createPlanArena());
  };
  if (llvm::Error error = frontend.runPipeline("schedule and arena", build))
    return error;
  return getArenaBytes(
      frontend.getModule().lookupSymbol<func::FuncOp>(names::kStep));
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

static int64_t getStepTime(ModuleOp module) {
  return module.lookupSymbol<func::FuncOp>(names::kStep)
      ->getAttrOfType<DictionaryAttr>(names::kSchedule)
      .getAs<IntegerAttr>("step")
      .getInt();
}

struct StepScheduler::Tries {
  OwningOpRef<ModuleOp> original;
  /// The fastest step that fits, and what its arena takes.
  OwningOpRef<ModuleOp> best;
  int64_t bestBytes = 0;
  /// The least that an arena took; 0: nothing has been tried.
  int64_t needed = 0;
  /// A plan for more memory would hardly be faster.
  bool isSettled = false;
};

/// Returns what the first order of the plan for @model bytes takes. Where that
/// is too much, others of the same plan that need less are tried, too: that is
/// quicker than another plan, and mostly as fast a step.
llvm::Expected<int64_t>
StepScheduler::attempt(Frontend &frontend, int64_t model, Tries &tries) const {
  constexpr int kOrders = 3;
  if (tries.needed)
    frontend.setModule(OwningOpRef<ModuleOp>(tries.original->clone()));
  if (llvm::Error error = plan(frontend, model))
    return std::move(error);
  OwningOpRef<ModuleOp> planned(frontend.getModule().clone());
  int64_t first = 0, firstTime = 0;
  for (int i = 0; i != kOrders && model > 0; ++i) {
    if (i)
      frontend.setModule(OwningOpRef<ModuleOp>(planned->clone()));
    auto bytes = order(frontend, model);
    if (!bytes)
      return bytes.takeError();
    ModuleOp module = frontend.getModule();
    int64_t time = getStepTime(module);
    tries.needed = tries.needed ? std::min(tries.needed, *bytes) : *bytes;
    if (*bytes <= budget && (!tries.best || time < getStepTime(*tries.best))) {
      tries.best = module.clone();
      tries.bestBytes = *bytes;
    }
    if (!i) {
      first = *bytes;
      firstTime = time;
    }
    if (*bytes <= budget || options.order != "scheduled") {
      tries.isSettled = i && time - firstTime <= firstTime / 500;
      break;
    }
    model -= *bytes - budget + budget / 128;
  }
  return first;
}

/// So many plans are made before a budget is refused.
constexpr int kFrugalPlans = 4;

llvm::Error StepScheduler::run(Frontend &frontend) const {
  Tries tries;
  tries.original = frontend.getModule().clone();
  // Orders without a plan take what they take.
  if (options.order == "scheduled") {
    BudgetSearch search(budget);
    while (std::optional<int64_t> model = search.getNext()) {
      auto bytes = attempt(frontend, *model, tries);
      if (!bytes)
        return bytes.takeError();
      if (tries.isSettled)
        break;
      search.note(*model, *bytes);
    }
  }
  // As little as possible; packed, a plan that needs more by the model may take
  // less.
  for (int64_t model = 1, i = 0; !tries.best && i != kFrugalPlans; ++i) {
    int64_t before = tries.needed;
    if (auto bytes = attempt(frontend, model, tries); !bytes)
      return bytes.takeError();
    if (options.order != "scheduled" || (i && tries.needed >= before))
      break;
    model = tries.needed - tries.needed / 64;
  }
  if (tries.best) {
    frontend.setModule(std::move(tries.best));
    report(frontend.getModule(), tries.bestBytes);
    return llvm::Error::success();
  }
  int64_t whole = tries.needed + reserved;
  return makeError(llvm::formatv(
      "expected a memory budget of at least {0} bytes ({1:f2} GiB: {2:f2} for "
      "the arena and {3:f2} for driver and libraries, reserved_gib in {4}), "
      "got {5}",
      whole, whole / 1073741824.0, tries.needed / 1073741824.0,
      reserved / 1073741824.0, clusterFile, budget + reserved));
}
