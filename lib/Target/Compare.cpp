//===- Compare.cpp - A compiled step, simulated and run -------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "StepSource.h"
#include "fsdp/Analysis/Schedule/ClusterCost.h"
#include "fsdp/Analysis/StepExtraction.h"
#include "fsdp/Passes/Passes.h"
#include "fsdp/Target/PlanCompare.h"
#include "fsdp/Target/StepScheduler.h"

#include "mlir/Pass/PassManager.h"

using namespace mlir;
using namespace mlir::fsdp;
using namespace mlir::fsdp::sched;

/// The program that fsdp-compile makes with these options.
static llvm::Expected<StepProgram> compileProgram(const PlanOptions &options) {
  Frontend frontend(options);
  if (llvm::Error error = frontend.read())
    return std::move(error);
  PartitionOptions partition;
  Frontend::fill(options, partition);
  if (llvm::Error error =
          frontend.runPipeline("partition", [&](OpPassManager &pm) {
            buildPartitionPipeline(pm, partition);
          }))
    return std::move(error);
  if (llvm::Error error = frontend.runPipeline("kernels", buildKernelPipeline))
    return std::move(error);
  ScheduleOptions schedule;
  schedule.cluster = options.cluster;
  schedule.order = options.order;
  schedule.memoryBudget = options.memoryBudget;
  auto scheduler = StepScheduler::create(schedule, options.toolDir);
  if (!scheduler)
    return scheduler.takeError();
  if (llvm::Error error = scheduler->run(frontend))
    return std::move(error);
  FailureOr<StepProgram> program = extractStepProgram(frontend.getModule());
  if (failed(program))
    return llvm::createStringError("could not plan " + options.input);
  return std::move(*program);
}

llvm::Error fsdp::addComparison(const PlanOptions &options,
                                const Cluster &cluster, PlanReport &report) {
  auto program = compileProgram(options);
  if (!program)
    return program.takeError();
  auto traces = readRunTraces(options.compare, getIssueHash(*program));
  if (!traces)
    return traces.takeError();
  auto cost = createClusterCost(cluster, *program, options.profile);
  if (!cost)
    return cost.takeError();
  PlanVariant simulated;
  simulated.name = "compiled";
  simulated.title = "as simulated (" + options.order + ")";
  simulated.timeline = play(addTimes(*program, *cost->model, cost->placements));
  simulated.memory = getMemory(*program, simulated.timeline);
  simulated.placed.assign(program->ops.size(), Cause::Data);
  simulated.program = *program;
  auto run = makeRunVariant(*program, traces->front());
  if (!run)
    return run.takeError();
  report.hasProfile = !options.profile.empty();
  report.compared.push_back(std::move(simulated));
  report.compared.push_back(std::move(*run));
  return llvm::Error::success();
}
