//===- StepSource.h - One traced step, planned in many ways -----*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_LIB_PLAN_STEPSOURCE_H
#define FSDP_LIB_PLAN_STEPSOURCE_H

#include "fsdp/Cost/Cluster.h"
#include "fsdp/Cost/ScaledCost.h"
#include "fsdp/Driver/OptionValues.h"
#include "fsdp/Driver/StepTargets.h"
#include "fsdp/Plan/Planner.h"
#include "fsdp/Plan/Report/PlanReport.h"

#include <map>

namespace mlir::fsdp {

/// A program that was partitioned with a step: its symbol and kind.
struct LoweredProgram {
  std::string name, kind;
  sched::StepProgram program;
};

/// A step that was partitioned, without its IR. Plans of it on several threads
/// only read it.
struct LoweredStep {
  sched::StepProgram program;
  /// What the module holds beside it, in that order.
  std::vector<LoweredProgram> further;
  std::string strategy, wrap;
  /// Bytes of a thread that runs the kernels (getThreadBytes), which are beside
  /// the arena; 0 where no code was made for kernels.
  int64_t threadBytes = 0;
  /// What the reader must know of the kernels that were made.
  std::vector<std::string> notes;
};

using LoweredSteps = std::vector<std::shared_ptr<const LoweredStep>>;

/// Reads a traced step once and lowers copies of it under other options.
class StepSource {
public:
  explicit StepSource(const PlanOptions &options);

  llvm::Error read();
  ModuleOp getTraced() { return frontend.getModule(); }
  Frontend &getFrontend() { return frontend; }
  const StepItems &getItems() const { return items; }
  std::string getName() const { return getModelName(options.input); }

  /// Prints MLIR's diagnostics where it fails.
  llvm::Expected<LoweredStep> lower(const StepOptions &options);
  /// The same with code for other targets, which may be none.
  llvm::Expected<LoweredStep> lowerFor(const StepTargets &targets,
                                       const StepOptions &options);
  /// Prints nothing: the first diagnostic is the error. The same options are
  /// lowered once.
  llvm::Expected<std::shared_ptr<const LoweredStep>>
  lowerQuietly(const StepOptions &options);
  /// As quietly, with --wrap auto each of the wraps that there are to choose
  /// from and can be; else one.
  llvm::Expected<LoweredSteps> lowerWraps(const StepOptions &options);

private:
  const PlanOptions &options;
  StepTargets targets;
  Frontend frontend;
  StepItems items;
  struct Outcome {
    std::shared_ptr<const LoweredStep> step;
    std::string error;
  };
  std::map<std::string, Outcome> lowered;
};

/// --memory-budget, --compute-dtype, and what else can be refused
/// before a step is read.
llvm::Error readSettings(const PlanOptions &options, PlanSettings &settings);

/// --cluster.
llvm::Expected<Cluster> readCluster(const PlanOptions &options);

/// Of @options' mesh, on a cluster that may be faster than it is. Free of IR
/// and of state: may run on several threads.
llvm::Expected<PlanReport> planLowered(const LoweredStep &step,
                                       const Cluster &cluster,
                                       const PlanOptions &options,
                                       const PlanSettings &settings,
                                       const CostFactors &factors = {});
/// Plans the programs beside @step as it was planned in @report, for the same
/// budget. What does not fit is a note.
llvm::Error addFurtherPrograms(const LoweredStep &step, const Cluster &cluster,
                               const PlanOptions &options,
                               const PlanSettings &settings,
                               PlanReport &report);
/// The fastest of @steps that fits, and its plan, which says why.
struct FastestPlan {
  std::shared_ptr<const LoweredStep> step;
  PlanReport report;
};
llvm::Expected<FastestPlan> planFastest(const LoweredSteps &steps,
                                        const Cluster &cluster,
                                        const PlanOptions &options,
                                        const PlanSettings &settings,
                                        const CostFactors &factors = {});
/// Whether kernels have no code for the GPUs of @cluster, and no profile that
/// measured it: they cost what their sizes allow at best.
bool hasIdealKernels(const PlanOptions &options, const Cluster &cluster);
/// Says in @report, the plan of @step, whether kernels have no code for the
/// GPUs of @cluster, and what the step takes with the code that they get by
/// default: lowers and plans it once more.
void addCompiledStep(StepSource &source, const Cluster &cluster,
                     const PlanOptions &options, const PlanSettings &settings,
                     const LoweredStep &step, PlanReport &report);
/// The best order of @report, as it would be on @cluster.
llvm::Expected<PlanVariant> simulateBest(const PlanReport &report,
                                         const Cluster &cluster,
                                         const CostFactors &factors);

/// Plans the step of @report again with one thing changed, for all things that
/// could make it faster.
void addWhatIfs(StepSource &source, const Cluster &cluster,
                const PlanOptions &options, const PlanSettings &settings,
                std::shared_ptr<const LoweredStep> step, PlanReport &report);

/// Adds to @report the program that fsdp-compile makes, simulated, and the run
/// of it that @options name. Refuses a run of another program.
llvm::Error addComparison(const PlanOptions &options, const Cluster &cluster,
                          PlanReport &report);

/// What --target names; none without it.
llvm::Expected<StepTargets> createTargets(const PlanOptions &options);

/// `plan` for options with a sweep.
llvm::Error planSweep(const PlanOptions &options);

} // namespace mlir::fsdp

#endif // FSDP_LIB_PLAN_STEPSOURCE_H
