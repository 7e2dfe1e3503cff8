//===- StepScheduler.cpp - Plan, order and arena within a budget ----------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Driver/StepScheduler.h"
#include "fsdp/Analysis/Contract/InputContract.h"
#include "fsdp/Analysis/Step/StepBudget.h"
#include "fsdp/Analysis/Step/StepExtraction.h"
#include "fsdp/Analysis/Step/StepStructure.h"
#include "fsdp/Cost/ClusterFile.h"
#include "fsdp/Driver/OptionValues.h"
#include "fsdp/Passes/Passes.h"
#include "fsdp/Passes/Pipelines.h"
#include "fsdp/Plan/Report/PlanReport.h"
#include "fsdp/Schedule/ClusterCost.h"
#include "fsdp/Schedule/Timeline.h"
#include "fsdp/Support/PrintableText.h"

#include "mlir/Pass/PassManager.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace mlir::fsdp;

llvm::Expected<StepScheduler> StepScheduler::create(const StepOptions &step,
                                                    StringRef toolDir) {
  StepScheduler result;
  Copyable<SchedulePipelineOptions> &options = result.options;
  options = step.schedule;
  result.rules = options.getRules();
  auto file = findCluster(options.cluster, toolDir);
  if (!file)
    return file.takeError();
  options.cluster = *file;
  auto cluster = loadCluster(*file);
  if (!cluster)
    return cluster.takeError();
  result.cluster = std::move(*cluster);
  result.cluster.stepProfile = options.profile;
  if (!step.memoryBudget.empty()) {
    auto bytes = parseBytes(step.memoryBudget);
    if (!bytes)
      return bytes.takeError();
    options.memoryBudget = *bytes;
  }
  return result;
}

/// Warns, at the first call of each, of kernels that take much of @program far
/// below their roof (getSlowKernels).
static void warnOfSlowKernels(ProgramOp program, const Cluster &cluster) {
  SmallVector<Operation *> origins;
  FailureOr<sched::StepProgram> step = extractStepProgram(program, &origins);
  if (failed(step))
    return;
  auto cost = createClusterCost(cluster, *step);
  // The pass that timed the program said what is wrong with its cluster.
  if (!cost)
    return llvm::consumeError(cost.takeError());
  auto times = addTimes(*step, *cost->model, cost->placements);
  Time whole = sched::play(times).step;
  std::vector<KernelShare> shares = getKernelShares(*step, times);
  // The location names the module.
  for (const KernelShare *share : getSlowKernels(shares, whole))
    if (share->firstOp >= 0)
      emitWarning(origins[share->firstOp]->getLoc())
          << describeSlowKernel(*share, whole);
}

/// Whether @module is timed for GPUs without code for them: its kernels cost
/// what their sizes allow at best. (A profile has measured them.)
static bool hasIdealKernels(ModuleOp module, const Cluster &cluster) {
  return cluster.device.multiprocessors.count > 0 &&
         cluster.stepProfile.empty() &&
         llvm::none_of(module.getOps<func::FuncOp>(), [](func::FuncOp kernel) {
           return bool(getImplementation(kernel, kCudaTarget));
         });
}

/// "step 412.3 ms, bound 406.8 ms, gap 1.4 %": what the programs take by the
/// cost model, and what no order could beat; of further programs with their
/// names.
void StepScheduler::reportTimes(ModuleOp module) const {
  int64_t budget = getArenaBudget(module).value_or(0);
  bool isIdeal = hasIdealKernels(module, cluster);
  for (auto program : module.getOps<ProgramOp>()) {
    ScheduleAttr schedule = program.getScheduleAttr();
    double time = toSeconds(schedule.getStep()) * 1e3,
           bound = toSeconds(schedule.getBound()) * 1e3;
    std::string name = program == getTrainProgram(module)
                           ? "step"
                           : makePrintable(program.getSymName());
    llvm::errs() << llvm::formatv(
        "{0} {1:f3} ms, bound {2:f3} ms, gap {3:f1} %, on {4}; arena {5:f1} "
        "MiB of {6:f1}{7}\n",
        name, time, bound, bound > 0 ? 100 * (time - bound) / bound : 0,
        makePrintable(cluster.name),
        program.getArenaAttr().getBytes() / 1048576.0, budget / 1048576.0,
        isIdeal ? "; " + describeCode({/*isIdeal=*/true, 0, ""}) : "");
    warnOfSlowKernels(program, cluster);
  }
}

/// Borders come on top of what was packed within the budget: they are for
/// finding mistakes, so what they take beyond it is said, not refused.
static void reportGuarded(ModuleOp module) {
  int64_t bytes = 0, budget = getArenaBudget(module).value_or(0);
  for (auto program : module.getOps<ProgramOp>())
    bytes = std::max(bytes, program.getArenaAttr().getBytes());
  if (bytes > budget)
    llvm::errs() << "guarded arena " << bytes << " bytes, " << bytes - budget
                 << " over the budget\n";
}

void StepScheduler::report(ModuleOp module, StringRef stage) const {
  if (stage == kArenaStage)
    reportTimes(module);
  else if (stage == kGuardedArenaStage)
    reportGuarded(module);
}

llvm::Error StepScheduler::run(Frontend &frontend) const {
  for (const Stage &stage : getStages())
    if (llvm::Error error = frontend.runStage(frontend.getModule(), stage))
      return error;
  return llvm::Error::success();
}

llvm::Error StepScheduler::makeDrafts(Frontend &frontend,
                                      ModuleOp module) const {
  return frontend.runPipeline(module, "draft", [&](OpPassManager &pm) {
    buildDraftPipeline(pm, options);
  });
}

llvm::Expected<StepScheduler::Plans>
StepScheduler::findPlans(Frontend &frontend, ModuleOp module,
                         llvm::function_ref<bool(ProgramOp)> wants) const {
  if (llvm::Error error = makeDrafts(frontend, module))
    return std::move(error);
  Plans plans;
  for (auto program : module.getOps<ProgramOp>()) {
    if (!wants(program))
      continue;
    Frontend::TimedPart timed(frontend, kPlanStage);
    auto plan = findPlan(ExtractedStep(program), cluster,
                         *getArenaBudget(module), rules);
    if (!plan)
      return plan.takeError();
    plans[program.getSymName()] = std::move(*plan);
  }
  return plans;
}

llvm::Error StepScheduler::writePlans(Frontend &frontend,
                                      const Plans &plans) const {
  ModuleOp module = frontend.getModule();
  if (plans.empty())
    return llvm::Error::success();
  if (llvm::Error error = makeDrafts(frontend, module))
    return error;
  for (auto program : module.getOps<ProgramOp>()) {
    auto plan = plans.find(program.getSymName());
    if (plan == plans.end())
      continue;
    if (!plan->second.fits())
      return llvm::createStringError(describeMisfit(
          program, plan->second.leastBytes, cluster, options.cluster));
    if (failed(writePlan(program, ExtractedStep(program), plan->second)))
      return llvm::createStringError("expected a plan that can be written");
  }
  return llvm::Error::success();
}
