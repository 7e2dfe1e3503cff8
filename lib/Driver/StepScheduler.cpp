//===- StepScheduler.cpp - Plan, order and arena within a budget ----------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Driver/StepScheduler.h"
#include "fsdp-rt/memory.h"
#include "fsdp/Analysis/Contract/InputContract.h"
#include "fsdp/Analysis/Step/StepArguments.h"
#include "fsdp/Analysis/Step/StepExtraction.h"
#include "fsdp/Analysis/Step/StepStructure.h"
#include "fsdp/Cost/Cluster.h"
#include "fsdp/Cost/ClusterFile.h"
#include "fsdp/Cost/FormatBytes.h"
#include "fsdp/Driver/OptionValues.h"
#include "fsdp/Passes/Passes.h"
#include "fsdp/Passes/Pipelines.h"
#include "fsdp/Planning/ProgramTrials.h"
#include "fsdp/Planning/StepFit.h"
#include "fsdp/Schedule/ClusterCost.h"
#include "fsdp/Schedule/Timeline.h"
#include "fsdp/Tool/PrintableText.h"

#include "mlir/Pass/PassManager.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace mlir::fsdp;

llvm::Expected<StepScheduler>
StepScheduler::create(const ScheduleOptions &options, const StepOptions &step,
                      StringRef toolDir) {
  StepScheduler result;
  result.options = options;
  result.reshardAfterForward = step.reshardAfterForward;
  result.recompute = step.recompute;
  result.offload = step.offload;
  result.bucket = step.bucket;
  auto rules = sched::parsePlanRules(step.reshardAfterForward, step.recompute,
                                     step.offload, step.bucket);
  if (!rules)
    return rules.takeError();
  result.rules = *rules;
  auto file = findCluster(options.cluster, toolDir);
  if (!file)
    return file.takeError();
  result.clusterFile = *file;
  auto cluster = loadCluster(*file);
  if (!cluster)
    return cluster.takeError();
  result.cluster = std::move(*cluster);
  result.cluster.stepProfile = options.profile;
  result.reserved = result.cluster.device.reservedBytes;
  result.reservedFor =
      "driver and libraries, reserved_gib in " + result.clusterFile;
  result.budget = result.cluster.device.getUsableBytes();
  if (!options.memoryBudget.empty()) {
    auto bytes = parseBytes(options.memoryBudget);
    if (!bytes)
      return bytes.takeError();
    result.budget = *bytes - result.reserved;
  }
  return result;
}

/// Writes the plan that was chosen.
void StepScheduler::fillPlan(OpPassManager &pm, const Choice &choice) const {
  OptimizeOptions optimize;
  optimize.cluster = clusterFile;
  optimize.profile = options.profile;
  optimize.budget = choice.plan;
  optimize.planned = choice.planned;
  optimize.reshardAfterForward = reshardAfterForward;
  optimize.recompute = recompute;
  optimize.offload = offload;
  optimize.bucket = bucket;
  buildOptimizePipeline(pm, optimize);
}

/// Orders the planned step.
void StepScheduler::fillOrder(OpPassManager &pm, const Choice &choice) const {
  ScheduleStepOptions schedule;
  schedule.cluster = clusterFile;
  schedule.profile = options.profile;
  schedule.order = options.order;
  // What is reserved may be all of it. The pass takes 0 for the device's.
  schedule.budget = std::max<int64_t>(choice.order.budget, 1);
  schedule.room = choice.order.room;
  schedule.available = std::max<int64_t>(budget, 1);
  schedule.shrink = true;
  schedule.forwardPrefetch = options.forwardPrefetch;
  schedule.backwardPrefetch = options.backwardPrefetch;
  schedule.limitAllGathers = options.limitAllGathers;
  pm.addPass(createPlanArena({/*draft=*/true}));
  pm.addPass(createScheduleStep(schedule, choice.schedule));
}

/// "step 412.3 ms, bound 406.8 ms, gap 1.4 %"; of further programs with their
/// names.
void StepScheduler::report(ModuleOp module) const {
  for (auto program : module.getOps<ProgramOp>()) {
    ScheduleAttr schedule = program.getScheduleAttr();
    double time = toSeconds(schedule.getStep()) * 1e3,
           bound = toSeconds(schedule.getBound()) * 1e3;
    std::string name = program == getTrainProgram(module)
                           ? "step"
                           : makePrintable(program.getSymName());
    llvm::errs() << llvm::formatv(
        "{0} {1:f3} ms, bound {2:f3} ms, gap {3:f1} %, on {4}; arena {5:f1} "
        "MiB of {6:f1}\n",
        name, time, bound, bound > 0 ? 100 * (time - bound) / bound : 0,
        makePrintable(cluster.name),
        program.getArenaAttr().getBytes() / 1048576.0, budget / 1048576.0);
  }
}

/// Packing adds copies to a step, of what could not be computed in its place:
/// its time is known only then.
static llvm::Error recordTime(ProgramOp program, const Cluster &cluster) {
  auto extracted = extractStepProgram(program);
  if (failed(extracted))
    return llvm::createStringError("expected a step that can be timed");
  auto cost = createClusterCost(cluster, *extracted);
  if (!cost)
    return cost.takeError();
  Time time =
      sched::play(addTimes(*extracted, *cost->model, cost->placements)).step;
  ScheduleAttr schedule = program.getScheduleAttr();
  program.setScheduleAttr(ScheduleAttr::get(
      program.getContext(), schedule.getOrder(), schedule.getBound(), time));
  return llvm::Error::success();
}

llvm::Error StepScheduler::order(Frontend &frontend, ProgramOp program,
                                 const Choice &choice) const {
  if (llvm::Error error =
          frontend.runPipeline(program, "schedule", [&](OpPassManager &pm) {
            fillOrder(pm, choice);
          }))
    return error;
  return frontend.runPipeline(program, "arena", [](OpPassManager &pm) {
    pm.addPass(createPlanArena());
  });
}

/// The planner wants to know how large things are and which share memory.
static llvm::Error makeDraft(Frontend &frontend, ProgramOp program) {
  return frontend.runPipeline(program, "draft", [](OpPassManager &pm) {
    pm.addPass(createPlanArena({/*draft=*/true}));
  });
}

/// It is of the step's program, so that only what is found is made.
llvm::Expected<StepScheduler::Choice>
StepScheduler::choose(Frontend &frontend, ProgramOp program) const {
  if (llvm::Error error = makeDraft(frontend, program))
    return std::move(error);
  auto extracted = extractStepProgram(program);
  if (failed(extracted))
    return llvm::createStringError("expected a step that can be planned");
  auto cost = createClusterCost(cluster, *extracted);
  if (!cost)
    return cost.takeError();
  sched::ProgramTrials trials(*extracted, *cost->model, cost->placements,
                              cluster.host ? cluster.host->memoryBytes : 0,
                              rules);
  auto fit = sched::fitStep(trials, budget);
  frontend.getWatch().lap("plan and order");
  if (!fit)
    return fit.takeError();
  if (!fit->fits()) {
    Choice none;
    none.kind = program.getKind();
    none.leastBytes = fit->leastBudget;
    return none;
  }
  return Choice{program.getKind(),
                trials.getBest().budget,
                std::make_shared<sched::PlannedStep>(trials.getBest().planned),
                trials.getBestLimits(),
                std::make_shared<sched::Schedule>(trials.getBestSchedule()),
                trials.getBestOutcome()};
}

llvm::Error StepScheduler::refuse(ProgramOp program, int64_t needed) const {
  bool isTrain = program.getKind() == ProgramKind::train;
  return llvm::createStringError(llvm::formatv(
      "expected a memory budget of at least {0} bytes ({1} for the arena{5}, "
      "{2} for {3}), got {4}",
      needed + reserved, formatBytes(needed), formatBytes(reserved),
      reservedFor, budget + reserved,
      isTrain ? "" : " of " + makePrintable(program.getSymName())));
}

void StepScheduler::reserveScratch(ModuleOp module) {
  func::FuncOp kernel = getKernelWithMostScratch(module);
  int64_t more = ::fsdp::rt::getThreadBytes(getScratchBytes(kernel)) - reserved;
  if (more <= 0)
    return;
  reserved += more;
  budget -= more;
  reservedFor = "scratch memory of ";
  if (kernel)
    reservedFor += ("@" + kernel.getSymName() + " and of ").str();
  reservedFor += "products";
}

SmallVector<RemarkingPass>
StepScheduler::getRemarkingPasses(const ScheduleOptions &options) {
  SmallVector<RemarkingPass> passes;
  if (options.hasPlan()) {
    passes.push_back({"fsdp-plan-step", true, true});
    passes.push_back({"fsdp-offload-activations", true, false});
  }
  passes.push_back({"fsdp-schedule-step", true, true});
  return passes;
}

llvm::Error StepScheduler::run(Frontend &frontend, const Choices &known) const {
  for (auto program : frontend.getModule().getOps<ProgramOp>()) {
    auto it = known.find(program.getSymName());
    if (llvm::Error error =
            run(frontend, program, it == known.end() ? nullptr : &it->second))
      return error;
  }
  return llvm::Error::success();
}

llvm::Error StepScheduler::run(Frontend &frontend, ProgramOp program,
                               const Choice *known) const {
  Choice choice;
  choice.order = {budget, 0};
  bool isPlanned = options.hasPlan();
  if (isPlanned) {
    auto chosen =
        known ? llvm::Expected<Choice>(*known) : choose(frontend, program);
    if (!chosen)
      return chosen.takeError();
    choice = *chosen;
    if (known)
      if (llvm::Error error = makeDraft(frontend, program))
        return error;
    if (!choice.fits())
      return refuse(program, choice.leastBytes);
    if (llvm::Error error = frontend.runPipeline(
            program, "plan", [&](OpPassManager &pm) { fillPlan(pm, choice); }))
      return error;
  }
  if (llvm::Error error = order(frontend, program, choice))
    return error;
  int64_t bytes = program.getArenaAttr().getBytes();
  if (isPlanned && bytes != choice.outcome.bytes)
    return llvm::createStringError("internal error: expected an arena of " +
                                   llvm::Twine(choice.outcome.bytes) +
                                   " bytes, as planned, got " +
                                   llvm::Twine(bytes));
  if (bytes > budget)
    return refuse(program, bytes);
  return recordTime(program, cluster);
}
