//===- MakeCompileReport.cpp - A compiled step, explained -----------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "MakeCompileReport.h"
#include "StepSource.h"
#include "fsdp/Analysis/InputContract.h"
#include "fsdp/Analysis/Schedule/ClusterCost.h"
#include "fsdp/Analysis/StepExtraction.h"
#include "fsdp/Analysis/StepStructure.h"

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

llvm::Expected<CompileReport>
fsdp::makeCompileReport(ModuleOp module, const CompileOptions &options,
                        const StepScheduler &scheduler,
                        ArrayRef<LoggedRemark> remarks) {
  ProgramOp step = getTrainProgram(module);
  FailureOr<StepProgram> program = extractStepProgram(step);
  if (failed(program))
    return llvm::createStringError("could not report on " + options.input);
  auto cost = createClusterCost(scheduler.getCluster(), *program);
  if (!cost)
    return cost.takeError();
  CompileReport report;
  report.model = getModelName(options.input);
  report.mesh = options.mesh;
  if (auto strategy = module->getAttrOfType<StringAttr>(names::kStrategy))
    report.strategy = strategy.str();
  report.cluster = scheduler.getCluster().name;
  report.order = options.schedule.order;
  report.arenaBytes = program->arenaBytes;
  report.budget = scheduler.getBudget();
  report.variant =
      simulateVariant(report.order, report.order, std::move(*program),
                      *cost->model, cost->placements);
  report.variant.bound = step.getScheduleAttr().getBound();
  for (const LoggedRemark &remark : remarks)
    report.remarks.push_back({remark.kind, remark.pass, remark.name,
                              getPlace(remark.loc), remark.text});
  return report;
}
