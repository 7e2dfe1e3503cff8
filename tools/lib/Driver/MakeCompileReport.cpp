//===- MakeCompileReport.cpp - A compiled step, explained -----------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "MakeCompileReport.h"
#include "fsdp/Analysis/Contract/InputContract.h"
#include "fsdp/Analysis/Step/StepBudget.h"
#include "fsdp/Analysis/Step/StepExtraction.h"
#include "fsdp/Analysis/Step/StepStructure.h"
#include "fsdp/Driver/OptionValues.h"
#include "fsdp/Schedule/ClusterCost.h"

#include "llvm/Support/Path.h"

using namespace mlir;
using namespace mlir::fsdp;
using namespace mlir::fsdp::sched;

/// The path of a module, or "model.mlir:33"; empty where neither is known.
static std::string getPlace(Location loc) {
  if (auto path = loc->findInstanceOf<NameLoc>())
    return path.getName().str();
  if (auto file = loc->findInstanceOf<FileLineColLoc>())
    return (llvm::sys::path::filename(file.getFilename()) + ":" +
            Twine(file.getLine()))
        .str();
  return "";
}

/// As it is in its order, with the scheduler's bound.
static llvm::Expected<PlanVariant> simulate(ProgramOp op, StringRef order,
                                            const Cluster &cluster) {
  FailureOr<StepProgram> program = extractStepProgram(op);
  if (failed(program))
    return llvm::createStringError("could not report on " + op.getSymName());
  auto cost = createClusterCost(cluster, *program);
  if (!cost)
    return cost.takeError();
  PlanVariant variant =
      simulateVariant(order.str(), order.str(), std::move(*program),
                      *cost->model, cost->placements);
  variant.bound = op.getScheduleAttr().getBound();
  variant.arenaBytes = variant.program.arenaBytes;
  return variant;
}

llvm::Expected<CompileReport>
fsdp::makeCompileReport(ModuleOp module, const CompileOptions &options,
                        const StepScheduler &scheduler,
                        ArrayRef<LoggedRemark> remarks) {
  CompileReport report;
  report.model = getModelName(options.input);
  report.mesh = options.partition.mesh;
  if (auto strategy = module->getAttrOfType<StringAttr>(names::kStrategy))
    report.strategy = strategy.str();
  report.cluster = scheduler.getCluster().name;
  report.order = getWord<Order>(options.schedule.order);
  report.budget = getArenaBudget(module).value_or(0);
  ProgramOp train = getTrainProgram(module);
  for (auto program : module.getOps<ProgramOp>()) {
    auto variant = simulate(program, report.order, scheduler.getCluster());
    if (!variant)
      return variant.takeError();
    if (program == train) {
      report.variant = std::move(*variant);
      continue;
    }
    int64_t bytes = variant->arenaBytes;
    report.further.push_back({program.getSymName().str(),
                              stringifyProgramKind(program.getKind()).str(),
                              std::move(*variant), bytes});
  }
  for (const LoggedRemark &remark : remarks)
    report.remarks.push_back({remark.kind, remark.pass, remark.name,
                              getPlace(remark.loc), remark.text});
  return report;
}
