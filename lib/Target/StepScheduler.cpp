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
      optimize.offload = offload;
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

namespace {
/// Looks for the largest budget of the model for which the packed arena fits.
/// What packing takes is not proportional to it, nor always larger for more:
/// plans differ in steps.
class BudgetSearch {
public:
  explicit BudgetSearch(int64_t budget)
      : budget(std::max<int64_t>(budget, 1)) {}

  /// The next budget to try; none where that would gain little.
  std::optional<int64_t> getNext() const {
    if (isOver)
      return std::nullopt;
    if (!fails.model)
      return budget;
    // As if all took more by the same part; a little less where that is next to
    // nothing.
    if (!fits.model) {
      int64_t part = int64_t(double(fails.model) * budget / fails.taken);
      return std::max<int64_t>(std::min(part, fails.model - budget / 64 - 1),
                               1);
    }
    // Between what fits and what does not, near neither.
    double between = double(budget - fits.taken) /
                     double(std::max<int64_t>(fails.taken - fits.taken, 1));
    return fits.model + int64_t(double(fails.model - fits.model) *
                                std::clamp(between, 0.25, 0.75));
  }

  void note(int64_t model, int64_t taken) {
    if (taken <= budget) {
      fits = {model, taken};
      refined += fails.model != 0;
    } else {
      fails = {model, taken};
      refined += fits.model != 0;
    }
    ++tried;
    bool isClose = fits.model && (budget - fits.taken < budget / 16 ||
                                  fails.model - fits.model < budget / 64);
    isOver = isClose || model == 1 || (fits.model && !fails.model) ||
             refined > kRefinements || (!fits.model && tried == kAttempts);
  }

private:
  /// In all, and of these when something fits already.
  static constexpr int kAttempts = 6, kRefinements = 1;

  struct Try {
    int64_t model = 0, taken = 0;
  };
  int64_t budget;
  Try fits, fails;
  int tried = 0, refined = 0;
  bool isOver = false;
};
} // namespace

static int64_t getStepTime(ModuleOp module) {
  return module.lookupSymbol<func::FuncOp>(names::kStep)
      ->getAttrOfType<DictionaryAttr>(names::kSchedule)
      .getAs<IntegerAttr>("step")
      .getInt();
}

llvm::Error StepScheduler::run(Frontend &frontend) const {
  OwningOpRef<ModuleOp> original(frontend.getModule().clone()), best;
  int64_t bestBytes = 0, needed = 0;
  auto tryBudget = [&](int64_t model) -> llvm::Expected<int64_t> {
    if (needed)
      frontend.setModule(OwningOpRef<ModuleOp>(original->clone()));
    auto bytes = attempt(frontend, model);
    if (!bytes)
      return bytes.takeError();
    needed = needed ? std::min(needed, *bytes) : *bytes;
    if (*bytes <= budget &&
        (!best || getStepTime(frontend.getModule()) < getStepTime(*best))) {
      best = frontend.getModule().clone();
      bestBytes = *bytes;
    }
    return *bytes;
  };
  // Orders without a plan take what they take.
  if (options.order == "scheduled") {
    BudgetSearch search(budget);
    while (std::optional<int64_t> model = search.getNext()) {
      auto bytes = tryBudget(*model);
      if (!bytes)
        return bytes.takeError();
      search.note(*model, *bytes);
    }
  }
  // As little as possible.
  if (!best)
    if (auto bytes = tryBudget(1); !bytes)
      return bytes.takeError();
  if (best) {
    frontend.setModule(std::move(best));
    report(frontend.getModule(), bestBytes);
    return llvm::Error::success();
  }
  int64_t whole = needed + reserved;
  return makeError(llvm::formatv(
      "expected a memory budget of at least {0} bytes ({1:f2} GiB: {2:f2} for "
      "the arena and {3:f2} for driver and libraries, reserved_gib in {4}), "
      "got {5}",
      whole, whole / 1073741824.0, needed / 1073741824.0,
      reserved / 1073741824.0, clusterFile, budget + reserved));
}
