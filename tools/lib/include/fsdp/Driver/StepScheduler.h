//===- StepScheduler.h - Plan, order and arena within a budget --*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_DRIVER_STEPSCHEDULER_H
#define FSDP_DRIVER_STEPSCHEDULER_H

#include "fsdp/Cost/Cluster.h"
#include "fsdp/Dialect/FSDP/IR/FSDP.h"
#include "fsdp/Driver/Frontend.h"
#include "fsdp/Passes/ProgramPlan.h"

namespace mlir::fsdp {

/// Plans and orders the programs of a frontend, which is at L2 with kernels, so
/// that their arenas fit: one budget, of which states take their part in each.
class StepScheduler {
public:
  /// Reads the cluster file; refuses what cannot be.
  static llvm::Expected<StepScheduler> create(const StepOptions &step,
                                              llvm::StringRef toolDir);

  /// Plans by the names of programs.
  using Plans = llvm::StringMap<ProgramPlan>;

  /// From L2 with kernels' code to L3, with the plan and in the order that
  /// fitStep finds for the budget, as fsdp-plan does: those of fsdp-schedule.
  /// If none fits, the error says which budget would do. The scheduler must
  /// outlive them.
  llvm::SmallVector<Stage> getStages() const {
    return getScheduleStages(options);
  }
  /// Runs all of them.
  llvm::Error run(Frontend &frontend) const;
  /// Prints to stderr what is known of @module once @stage has run.
  void report(ModuleOp module, llvm::StringRef stage) const;

  /// Looks for plans of the programs of @module that @wants names, and orders
  /// of them, as fsdp-plan-step does. @module is at L2 with kernels' code;
  /// arenas become drafts.
  llvm::Expected<Plans>
  findPlans(Frontend &frontend, ModuleOp module,
            llvm::function_ref<bool(ProgramOp)> wants) const;

  /// Writes such plans on the programs of these names, which are then not
  /// planned again. Refuses the first that does not fit.
  llvm::Error writePlans(Frontend &frontend, const Plans &plans) const;

  const Cluster &getCluster() const { return cluster; }
  /// What --memory-budget says, in bytes; 0: what the device has.
  int64_t getMemoryBudget() const { return options.memoryBudget; }

private:
  llvm::Error makeDrafts(Frontend &frontend, ModuleOp module) const;
  void reportTimes(ModuleOp module) const;

  /// With the cluster's file and the budget in bytes.
  Copyable<SchedulePipelineOptions> options;
  sched::PlanRules rules;
  Cluster cluster;
};

} // namespace mlir::fsdp

#endif // FSDP_DRIVER_STEPSCHEDULER_H
