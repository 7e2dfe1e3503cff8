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
#include "fsdp/Planning/PlanSearch.h"
#include "fsdp/Planning/StepFit.h"

namespace mlir::fsdp {

/// As the command line says it; empty: the default.
struct ScheduleOptions {
  /// A cluster file, or the name of one that is installed.
  std::string cluster;
  /// What an executable of this step wrote with --profile: its kernels' times;
  /// empty: none.
  std::string profile;
  /// scheduled, fsdp or in_order.
  std::string order = "scheduled";
  /// "24GiB": what a rank may use, with what driver and libraries take; empty:
  /// what the cluster's device has.
  std::string memoryBudget;
  /// Of fsdp-schedule-step; for order fsdp only.
  bool forwardPrefetch = true, limitAllGathers = true;
  std::string backwardPrefetch = "pre";

  /// Whether the step is planned before it is ordered: orders without a plan
  /// take what they take.
  bool hasPlan() const { return order == "scheduled"; }
};

/// Plans and orders the programs of a frontend, which is at L2 with kernels, so
/// that their arenas fit: one budget, of which states take their part in each.
class StepScheduler {
public:
  /// Reads the cluster file; refuses what cannot be.
  static llvm::Expected<StepScheduler> create(const ScheduleOptions &options,
                                              const StepOptions &step,
                                              llvm::StringRef toolDir);

  /// The passes of run() that remark with @options.
  static llvm::SmallVector<RemarkingPass>
  getRemarkingPasses(const ScheduleOptions &options);

  /// The budget of the model of memory for which the step is planned, what it
  /// is ordered for, and what its arena takes then. Bytes. With a plan, both
  /// answers, and the time that it takes.
  struct Choice {
    /// Of the program that is planned.
    ProgramKind kind = ProgramKind::train;
    int64_t plan = 0;
    std::shared_ptr<const sched::PlannedStep> planned;
    sched::OrderLimits order;
    std::shared_ptr<const sched::Schedule> schedule;
    sched::StepTrials::Outcome outcome;
    /// Bytes of a smallest arena, where none fits; else 0.
    int64_t leastBytes = 0;

    bool fits() const { return leastBytes == 0; }
  };

  /// By the names of programs.
  using Choices = llvm::StringMap<Choice>;

  /// Brings each program to L3 and places its arena: with the plan and in the
  /// order that fitStep finds for the budget, as fsdp-plan does. If none fits,
  /// the error says which budget would do. @known: what choose() gave for
  /// copies of some.
  llvm::Error run(Frontend &frontend, const Choices &known = {}) const;

  /// Says on stderr what the programs that run() made take by the cost model,
  /// and what no order could beat.
  void report(ModuleOp module) const;

  /// Looks for a plan of @program, which gets a draft of its arena, and an
  /// order that fit.
  llvm::Expected<Choice> choose(Frontend &frontend, ProgramOp program) const;

  /// Leaves room beside the arena for what one thread takes with the kernels of
  /// @module, whose code is known, where that is more than the cluster
  /// reserves.
  void reserveScratch(ModuleOp module);

  /// Bytes that the arena may take.
  int64_t getBudget() const { return budget; }
  /// The --memory-budget that leaves @bytes for it.
  int64_t getBudgetFor(int64_t bytes) const { return bytes + reserved; }
  const Cluster &getCluster() const { return cluster; }

private:
  void fillPlan(OpPassManager &pm, const Choice &choice) const;
  void fillOrder(OpPassManager &pm, const Choice &choice) const;
  llvm::Error run(Frontend &frontend, ProgramOp program,
                  const Choice *known) const;
  /// Orders @program as it is, and places its arena.
  llvm::Error order(Frontend &frontend, ProgramOp program,
                    const Choice &choice) const;
  llvm::Error refuse(ProgramOp program, int64_t needed) const;

  ScheduleOptions options;
  /// For order scheduled: options of fsdp-plan-step.
  std::string reshardAfterForward, recompute, offload, bucket;
  sched::PlanRules rules;
  std::string clusterFile;
  Cluster cluster;
  /// Bytes for the arena, and what others take of a rank's memory.
  int64_t budget = 0, reserved = 0;
  /// Who the others are.
  std::string reservedFor;
};

} // namespace mlir::fsdp

#endif // FSDP_DRIVER_STEPSCHEDULER_H
