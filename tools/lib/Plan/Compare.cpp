//===- Compare.cpp - A compiled step, simulated and run -------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "StepSource.h"
#include "fsdp/Analysis/Step/StepExtraction.h"
#include "fsdp/Analysis/Step/StepStructure.h"
#include "fsdp/Driver/StepScheduler.h"
#include "fsdp/Plan/Report/PlanCompare.h"
#include "fsdp/Schedule/ClusterCost.h"

using namespace mlir;
using namespace mlir::fsdp;
using namespace mlir::fsdp::sched;

/// The program that fsdp-compile makes with these options in @order, for the
/// times in @profile or, if it is empty, in the cluster file.
static llvm::Expected<StepProgram>
compileProgram(PlanOptions options, Order order, StringRef profile) {
  // As fsdp-compile, which makes code for processors unless told otherwise.
  if (options.targets.empty())
    options.targets = kCpuTarget.str();
  auto targets = createTargets(options);
  if (!targets)
    return targets.takeError();
  options.kernels.setLimits(getKernelLimits(*targets));
  Frontend frontend(options);
  if (llvm::Error error = frontend.read())
    return std::move(error);
  if (llvm::Error error = frontend.partition(frontend.getModule(), options))
    return std::move(error);
  if (llvm::Error error = frontend.makeKernels(frontend.getModule(), options))
    return std::move(error);
  for (const Stage &stage : getKernelCodeStages(*targets))
    if (llvm::Error error = frontend.runStage(frontend.getModule(), stage))
      return std::move(error);
  SchedulePipelineOptions &schedule = options.schedule;
  schedule.order = order;
  schedule.profile = profile.str();
  auto fsdp = parseFSDPOptions(options.fsdp);
  if (!fsdp)
    return fsdp.takeError();
  schedule.forwardPrefetch = fsdp->forwardPrefetch;
  schedule.backwardPrefetch = fsdp->backwardPrefetch;
  schedule.limitAllGathers = fsdp->limitAllGathers;
  auto scheduler = StepScheduler::create(options, options.toolDir);
  if (!scheduler)
    return scheduler.takeError();
  if (llvm::Error error = scheduler->run(frontend))
    return std::move(error);
  FailureOr<StepProgram> program =
      extractStepProgram(getTrainProgram(frontend.getModule()));
  if (failed(program))
    return llvm::createStringError("could not plan " + options.input);
  return std::move(*program);
}

llvm::Error fsdp::addComparison(const PlanOptions &options,
                                const Cluster &cluster, PlanReport &report) {
  auto traces = readRunTraces(options.compare);
  if (!traces)
    return traces.takeError();
  const RunTrace &trace = traces->front();
  // What runs without queues is issued in order.
  std::optional<Order> order = trace.order == "synchronous"
                                   ? Order::in_order
                                   : parseWord<Order>(trace.order);
  if (!order)
    return llvm::createStringError(
        trace.path + ": expected a run in order " + listWords<Order>() +
        ", got '" + trace.order +
        "', which fsdp-plan simulates and no executable writes");
  auto program = compileProgram(options, *order, "");
  if (!program)
    return program.takeError();
  auto run = makeRunVariant(*program, trace);
  // What ran may have been compiled for the times in the profile.
  if (!run && !options.schedule.profile.empty()) {
    llvm::consumeError(run.takeError());
    program = compileProgram(options, *order, options.schedule.profile);
    if (!program)
      return program.takeError();
    run = makeRunVariant(*program, trace);
  }
  if (!run)
    return run.takeError();
  auto cost = createClusterCost(cluster, *program, /*isTraced=*/true);
  if (!cost)
    return cost.takeError();
  PlanVariant simulated =
      simulateVariant("compiled", "as simulated (" + trace.order + ")",
                      *program, *cost->model, cost->placements);
  run->transfers = simulated.transfers;
  run->roofs = simulated.roofs;
  run->reasons = getRunReasons(simulated, *run);
  report.comparesFirstStep = trace.steps.size() == 1;
  llvm::append_range(report.notes, getRunNotes(*traces, program->worldSize));
  report.hasProfile = !options.schedule.profile.empty();
  report.compared.push_back(std::move(simulated));
  report.compared.push_back(std::move(*run));
  return llvm::Error::success();
}
