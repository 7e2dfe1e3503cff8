//===- StepScheduler.cpp - Plan, order and arena within a budget ----------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Target/StepScheduler.h"
#include "fsdp/Analysis/Cost/Cluster.h"
#include "fsdp/Analysis/InputContract.h"
#include "fsdp/Analysis/Schedule/ClusterCost.h"
#include "fsdp/Analysis/Schedule/Timeline.h"
#include "fsdp/Analysis/StepArguments.h"
#include "fsdp/Analysis/StepExtraction.h"
#include "fsdp/Passes/Passes.h"
#include "fsdp/Target/Planner.h"

#include "mlir/Pass/PassManager.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace mlir::fsdp;

static llvm::Error makeError(const llvm::Twine &message) {
  return llvm::createStringError(llvm::inconvertibleErrorCode(), message);
}

static func::FuncOp getStep(ModuleOp module) {
  return module.lookupSymbol<func::FuncOp>(names::kStep);
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

/// Plans the step for @budget bytes by the model of memory.
void StepScheduler::fillPlan(OpPassManager &pm, int64_t budget) const {
  OptimizeOptions optimize;
  optimize.cluster = clusterFile;
  optimize.budget = budget;
  optimize.reshardAfterForward = reshardAfterForward;
  optimize.recompute = recompute;
  optimize.offload = offload;
  optimize.bucket = bucket;
  buildOptimizePipeline(pm, optimize);
}

/// Orders the planned step for @budget bytes.
void StepScheduler::fillOrder(OpPassManager &pm, int64_t budget) const {
  ScheduleStepOptions schedule;
  schedule.cluster = clusterFile;
  schedule.order = options.order;
  // What is reserved may be all of it. The pass takes 0 for the device's.
  schedule.budget = std::max<int64_t>(budget, 1);
  schedule.shrink = true;
  schedule.forwardPrefetch = options.forwardPrefetch;
  schedule.backwardPrefetch = options.backwardPrefetch;
  schedule.limitAllGathers = options.limitAllGathers;
  pm.addPass(createPlanArena({/*draft=*/true}));
  pm.addPass(createScheduleStep(schedule));
}

/// "step 412.3 ms, bound 406.8 ms, gap 1.4 %".
void StepScheduler::report(ModuleOp module, int64_t bytes) const {
  auto schedule =
      getStep(module)->getAttrOfType<DictionaryAttr>(names::kSchedule);
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

/// Packing adds copies to a step, of what could not be computed in its place:
/// its time is known only then.
static llvm::Expected<Time> recordTime(ModuleOp module,
                                       const Cluster &cluster) {
  auto program = extractStepProgram(module);
  if (failed(program))
    return makeError("expected a step that can be timed");
  auto cost = createClusterCost(cluster, *program);
  if (!cost)
    return cost.takeError();
  Time time =
      sched::play(addTimes(*program, *cost->model, cost->placements)).step;
  func::FuncOp step = getStep(module);
  NamedAttrList schedule(step->getAttrOfType<DictionaryAttr>(names::kSchedule));
  schedule.set("step", Builder(module.getContext()).getI64IntegerAttr(time));
  step->setAttr(names::kSchedule, schedule.getDictionary(module.getContext()));
  return time;
}

llvm::Error StepScheduler::order(Frontend &frontend, int64_t budget) const {
  return frontend.runPipeline(
      "schedule", [&](OpPassManager &pm) { fillOrder(pm, budget); });
}

llvm::Expected<sched::StepTrials::Outcome>
StepScheduler::pack(Frontend &frontend) const {
  if (llvm::Error error = frontend.runPipeline(
          "arena", [](OpPassManager &pm) { pm.addPass(createPlanArena()); }))
    return std::move(error);
  ModuleOp module = frontend.getModule();
  llvm::Expected<Time> time = recordTime(module, cluster);
  if (!time)
    return time.takeError();
  return sched::StepTrials::Outcome{getArenaBytes(getStep(module)), *time};
}

/// The step of a module, planned and ordered by passes on copies of it.
class StepScheduler::Trials : public sched::StepTrials {
public:
  Trials(const StepScheduler &scheduler, Frontend &frontend)
      : scheduler(scheduler), frontend(frontend),
        original(frontend.getModule().clone()) {}

  llvm::Error plan(int64_t budget) override;
  llvm::Expected<Outcome> order(int64_t budget) override;
  void keep() override {
    best = frontend.getModule().clone();
    isBestPacked = isPacked;
    bestRemarks = decisions;
    llvm::append_range(bestRemarks, transfers);
  }
  /// Brings what was kept last, packed, to the frontend.
  llvm::Error takeBest();

private:
  /// A step in order, before its arena is packed, and what packing gave.
  struct Packed {
    OwningOpRef<func::FuncOp> step;
    Outcome outcome;
  };

  const StepScheduler &scheduler;
  Frontend &frontend;
  OwningOpRef<ModuleOp> original, planned, best;
  /// Budgets often lead to a step that another one has led to. Packing takes
  /// the most time, and depends on the step alone: kernels are the same in all
  /// modules.
  std::vector<Packed> packed;
  /// Whether the module that was ordered last is packed.
  bool isPacked = false, isBestPacked = false;
  /// Remarks of the last plan and of its last order.
  std::vector<LoggedRemark> decisions, transfers, bestRemarks;
};

llvm::Error StepScheduler::Trials::plan(int64_t budget) {
  planned = original->clone();
  llvm::Error error =
      frontend.runPipeline(*planned, "plan", [&](OpPassManager &pm) {
        scheduler.fillPlan(pm, budget);
      });
  decisions = frontend.getRemarks().take();
  return error;
}

llvm::Expected<sched::StepTrials::Outcome>
StepScheduler::Trials::order(int64_t budget) {
  frontend.setModule(planned->clone());
  if (llvm::Error error = scheduler.order(frontend, budget))
    return std::move(error);
  transfers = frontend.getRemarks().take();
  func::FuncOp step = getStep(frontend.getModule());
  auto known = llvm::find_if(packed, [&](Packed &other) {
    return OperationEquivalence::isEquivalentTo(
        step, *other.step, OperationEquivalence::IgnoreLocations);
  });
  isPacked = known == packed.end();
  if (!isPacked)
    return known->outcome;
  OwningOpRef<func::FuncOp> ordered = step.clone();
  llvm::Expected<Outcome> outcome = scheduler.pack(frontend);
  if (outcome)
    packed.push_back({std::move(ordered), *outcome});
  return outcome;
}

llvm::Error StepScheduler::Trials::takeBest() {
  frontend.getRemarks().append(std::move(bestRemarks));
  frontend.setModule(std::move(best));
  return isBestPacked ? llvm::Error::success()
                      : scheduler.pack(frontend).takeError();
}

llvm::Error StepScheduler::refuse(int64_t needed) const {
  int64_t whole = needed + reserved;
  return makeError(llvm::formatv(
      "expected a memory budget of at least {0} bytes ({1:f2} GiB: {2:f2} for "
      "the arena and {3:f2} for driver and libraries, reserved_gib in {4}), "
      "got {5}",
      whole, whole / 1073741824.0, needed / 1073741824.0,
      reserved / 1073741824.0, clusterFile, budget + reserved));
}

llvm::Error StepScheduler::run(Frontend &frontend) const {
  // Orders without a plan take what they take.
  if (options.order != "scheduled") {
    if (llvm::Error error = order(frontend, budget))
      return error;
    auto outcome = pack(frontend);
    if (!outcome)
      return outcome.takeError();
    if (outcome->bytes > budget)
      return refuse(outcome->bytes);
    report(frontend.getModule(), outcome->bytes);
    return llvm::Error::success();
  }
  std::vector<LoggedRemark> before = frontend.getRemarks().take();
  Trials trials(*this, frontend);
  auto fit = sched::fitStep(trials, budget);
  frontend.getRemarks().append(std::move(before));
  if (!fit)
    return fit.takeError();
  if (!fit->fits())
    return refuse(fit->leastBudget);
  if (llvm::Error error = trials.takeBest())
    return error;
  report(frontend.getModule(), fit->bytes);
  return llvm::Error::success();
}
