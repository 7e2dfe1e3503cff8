//===- StepScheduler.cpp - Plan, order and arena within a budget ----------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Target/StepScheduler.h"
#include "fsdp/Analysis/InputContract.h"
#include "fsdp/Analysis/StepArguments.h"
#include "fsdp/Passes/Passes.h"
#include "fsdp/Target/BudgetSearch.h"
#include "fsdp/Target/Planner.h"

#include "mlir/Pass/PassManager.h"
#include "llvm/Support/FormatVariadic.h"

#include <algorithm>
#include <limits>
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
  result.cluster = std::move(*cluster);
  result.reserved = result.cluster.device.reservedBytes;
  result.budget = result.cluster.device.getUsableBytes();
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
      step, bound, bound > 0 ? 100 * (step - bound) / bound : 0, cluster.name,
      bytes / 1048576.0, budget / 1048576.0);
}

static int64_t getStepTime(ModuleOp module) {
  return module.lookupSymbol<func::FuncOp>(names::kStep)
      ->getAttrOfType<DictionaryAttr>(names::kSchedule)
      .getAs<IntegerAttr>("step")
      .getInt();
}

/// Budgets are told apart by as much as places are.
constexpr int64_t kGranule = 256;
/// Whatever an arena takes, no other order of its plan is tried.
constexpr int64_t kNoTarget = std::numeric_limits<int64_t>::max();

struct StepScheduler::Tries {
  ModuleOp original;
  /// Bytes that the arena may take.
  int64_t budget;
  /// The fastest step that fits, and what its arena takes.
  OwningOpRef<ModuleOp> best = nullptr;
  int64_t bestBytes = 0;
  std::vector<LoggedRemark> bestRemarks = {};
  /// The least that an arena took; 0: nothing has been tried.
  int64_t needed = 0;
  /// A plan for more memory would hardly be faster.
  bool isSettled = false;
};

struct StepScheduler::Outcome {
  int64_t bytes = 0, time = 0;
  bool operator==(const Outcome &o) const {
    return bytes == o.bytes && time == o.time;
  }
};

/// Returns what comes of the first order of the plan for @model bytes. Where
/// its arena takes more than @target, others of the same plan that need less
/// are tried, too: that is quicker than another plan, and mostly as fast a
/// step.
llvm::Expected<StepScheduler::Outcome>
StepScheduler::attempt(Frontend &frontend, int64_t model, int64_t target,
                       Tries &tries) const {
  constexpr int kOrders = 3;
  frontend.setModule(OwningOpRef<ModuleOp>(tries.original.clone()));
  if (llvm::Error error = plan(frontend, model))
    return std::move(error);
  std::vector<LoggedRemark> decisions = frontend.getRemarks().take();
  OwningOpRef<ModuleOp> planned(frontend.getModule().clone());
  Outcome first, last;
  for (int i = 0; i != kOrders && model > 0; ++i) {
    if (i)
      frontend.setModule(OwningOpRef<ModuleOp>(planned->clone()));
    auto bytes = order(frontend, model);
    if (!bytes)
      return bytes.takeError();
    std::vector<LoggedRemark> transfers = frontend.getRemarks().take();
    ModuleOp module = frontend.getModule();
    Outcome now{*bytes, getStepTime(module)};
    tries.needed = tries.needed ? std::min(tries.needed, *bytes) : *bytes;
    bool fits = *bytes <= tries.budget;
    if (fits && (!tries.best || now.time < getStepTime(*tries.best))) {
      tries.best = module.clone();
      tries.bestBytes = *bytes;
      tries.bestRemarks = decisions;
      llvm::append_range(tries.bestRemarks, transfers);
    }
    if (!i)
      first = now;
    tries.isSettled = fits && i && now.time - first.time <= first.time / 500;
    if (fits || *bytes <= target || now == last)
      break;
    last = now;
    model -= *bytes - target + target / 128;
  }
  return first;
}

/// Looks for the fastest step within the budget.
llvm::Error StepScheduler::fill(Frontend &frontend, Tries &tries) const {
  BudgetSearch search(tries.budget);
  Outcome last;
  while (std::optional<int64_t> model = search.getNext()) {
    auto outcome = attempt(frontend, *model, tries.budget, tries);
    if (!outcome)
      return outcome.takeError();
    // The plan that needs least is the same below what it needs.
    if (tries.isSettled || (!tries.best && *outcome == last))
      break;
    last = *outcome;
    search.note(*model, outcome->bytes);
  }
  return llvm::Error::success();
}

/// Tries what needs as little as possible: by the model, and, since packed a
/// plan that needs more by the model may take less, a few of those. What is
/// tried does not depend on the budget, but that it ends with the first that
/// fits: so no budget is refused that is not below the least of these, which
/// stands in `needed` where none fits.
llvm::Error StepScheduler::squeeze(Frontend &frontend, Tries &tries) const {
  constexpr int kPlans = 8, kParts = 64;
  tries.needed = 0;
  auto least = attempt(frontend, /*model=*/1, /*target=*/1, tries);
  if (!least)
    return least.takeError();
  // Orders without a plan take what they take.
  bool isPlanned = options.order == "scheduled";
  for (int i = 1; isPlanned && !tries.best && i != kPlans; ++i) {
    int64_t model = least->bytes - least->bytes / kParts * i;
    auto outcome = attempt(frontend, model, /*target=*/kNoTarget, tries);
    if (!outcome)
      return outcome.takeError();
    if (*outcome == *least)
      break;
  }
  return llvm::Error::success();
}

/// @fits: a budget that works. Returns one that works, too, as small as a few
/// trials find; mostly the next smaller one does not.
llvm::Expected<int64_t> StepScheduler::findLeast(Frontend &frontend,
                                                 ModuleOp original,
                                                 int64_t fits) const {
  constexpr int kTrials = 4;
  int64_t next = fits - kGranule;
  for (int i = 0; i != kTrials && next > budget; ++i) {
    Tries tries{original, next};
    if (llvm::Error error = fill(frontend, tries))
      return std::move(error);
    if (!tries.best && next == fits - kGranule)
      break;
    if (tries.best)
      fits = next;
    // What it takes is a budget that most probably works.
    next = tries.best ? std::min(tries.bestBytes, fits - kGranule)
                      : fits - kGranule;
  }
  return fits;
}

llvm::Error StepScheduler::run(Frontend &frontend) const {
  std::vector<LoggedRemark> before = frontend.getRemarks().take();
  OwningOpRef<ModuleOp> original(frontend.getModule().clone());
  Tries tries{*original, budget};
  // Orders without a plan take what they take.
  bool isPlanned = options.order == "scheduled";
  if (isPlanned)
    if (llvm::Error error = fill(frontend, tries))
      return error;
  if (!tries.best)
    if (llvm::Error error = squeeze(frontend, tries))
      return error;
  frontend.getRemarks().append(std::move(before));
  frontend.getRemarks().append(std::move(tries.bestRemarks));
  if (tries.best) {
    frontend.setModule(std::move(tries.best));
    report(frontend.getModule(), tries.bestBytes);
    return llvm::Error::success();
  }
  int64_t needed = tries.needed;
  if (isPlanned) {
    auto least = findLeast(frontend, *original, needed);
    if (!least)
      return least.takeError();
    needed = *least;
  }
  int64_t whole = needed + reserved;
  return makeError(llvm::formatv(
      "expected a memory budget of at least {0} bytes ({1:f2} GiB: {2:f2} for "
      "the arena and {3:f2} for driver and libraries, reserved_gib in {4}), "
      "got {5}",
      whole, whole / 1073741824.0, needed / 1073741824.0,
      reserved / 1073741824.0, clusterFile, budget + reserved));
}
