//===- StepScheduler.h - Plan, order and arena within a budget --*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_TARGET_STEPSCHEDULER_H
#define FSDP_TARGET_STEPSCHEDULER_H

#include "fsdp/Analysis/Cost/Cluster.h"
#include "fsdp/Analysis/Planning/StepFit.h"
#include "fsdp/Target/Frontend.h"

namespace mlir::fsdp {

/// As the command line says it; empty: the default.
struct ScheduleOptions {
  /// A cluster file, or the name of one that is installed.
  std::string cluster;
  /// scheduled, fsdp or in_order.
  std::string order = "scheduled";
  /// "24GiB": what a rank may use, with what driver and libraries take; empty:
  /// what the cluster's device has.
  std::string memoryBudget;
  /// Of fsdp-schedule-step; for order fsdp only.
  bool forwardPrefetch = true, limitAllGathers = true;
  std::string backwardPrefetch = "pre";
};

/// Plans and orders the step of a frontend, which is at L2 with kernels, so
/// that its arena fits.
class StepScheduler {
public:
  /// Reads the cluster file; refuses what cannot be.
  static llvm::Expected<StepScheduler> create(const ScheduleOptions &options,
                                              const StepOptions &step,
                                              llvm::StringRef toolDir);

  /// Brings the step to L3 and places its arena. The planner's model of memory
  /// leaves gaps out that packing brings: where the arena exceeds the budget,
  /// orders of the plan that need less, and then smaller budgets for the plan
  /// are tried, near the largest that fits, down to what needs least; the
  /// fastest step of those that fit counts. If none does, the error says which
  /// budget would do. Says on stderr what the step takes by the cost model, and
  /// what no order could beat. Of remarks those of the try that counts are
  /// kept.
  llvm::Error run(Frontend &frontend) const;

  /// Bytes that the arena may take.
  int64_t getBudget() const { return budget; }
  const Cluster &getCluster() const { return cluster; }

private:
  void report(ModuleOp module, int64_t bytes) const;
  class Trials;
  void fillPlan(OpPassManager &pm, int64_t budget) const;
  void fillOrder(OpPassManager &pm, int64_t budget) const;
  /// Orders the step of @frontend as it is.
  llvm::Error order(Frontend &frontend, int64_t budget) const;
  /// Places the arena of a step that is in order, and times it.
  llvm::Expected<sched::StepTrials::Outcome> pack(Frontend &frontend) const;
  llvm::Error refuse(int64_t needed) const;

  ScheduleOptions options;
  /// For order scheduled: options of fsdp-plan-step.
  std::string reshardAfterForward, recompute, offload, bucket;
  std::string clusterFile;
  Cluster cluster;
  /// Bytes for the arena, and what others take of a rank's memory.
  int64_t budget = 0, reserved = 0;
};

} // namespace mlir::fsdp

#endif // FSDP_TARGET_STEPSCHEDULER_H
