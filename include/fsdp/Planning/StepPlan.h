//===- StepPlan.h - What a step keeps, groups and repeats -------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The decisions of the planner as a plain struct, and the program that they
// make of a step. The passes of passes/Optimize do the same to the IR.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_PLANNING_STEPPLAN_H
#define FSDP_PLANNING_STEPPLAN_H

#include "fsdp/Schedule/StepProgram.h"

#include <optional>

namespace mlir::fsdp::sched {

/// For a program in L2's order.
struct StepPlan {
  /// By op: gathers that do not happen, because what an earlier gather brought
  /// is kept.
  std::vector<bool> keep;
  /// By value: results of forward's launches that are not kept for backward.
  /// Their launches are repeated where backward reads them.
  std::vector<bool> recompute;
  /// By value: results of forward's launches that are in the host's memory from
  /// their last reader in forward to their first one in backward.
  std::vector<bool> offload;
  /// By op: starts with the same number are issued together; -1: alone.
  std::vector<Id> group;

  StepPlan() = default;
  explicit StepPlan(const StepProgram &program)
      : keep(program.ops.size()), recompute(program.values.size()),
        offload(program.values.size()), group(program.ops.size(), -1) {}
  bool operator==(const StepPlan &o) const {
    return keep == o.keep && recompute == o.recompute && offload == o.offload &&
           group == o.group;
  }
};

/// What the planner may ask for, by op.
struct PlanChoices {
  /// A gather: the earlier gather of the same bytes; -1 elsewhere.
  std::vector<Id> earlierGather;
  /// Launches whose results StepPlan::recompute may name: they run in forward,
  /// write memory of their own, and what they read of gathered parameters is
  /// gathered again for backward, or there still.
  std::vector<bool> canRecompute;
  /// By value: StepPlan::offload may name it, if backward then reads it.
  /// Results of forward's launches in memory of their own, which only compute
  /// of forward, loss and backward reads.
  std::vector<bool> canOffload;
};
PlanChoices getPlanChoices(const StepProgram &program);

/// By value: read in backward as @plan has it, where repeated launches are.
std::vector<bool> getReadInBackward(const StepProgram &program,
                                    const StepPlan &plan);

/// A wrong entry of a plan: of @op, or of one of its results.
struct PlanError {
  /// -1: of an argument, or of the plan as a whole.
  Id op = -1;
  std::string what;
};
std::optional<PlanError> findPlanError(const StepProgram &program,
                                       const StepPlan &plan);
/// The same in words, with the op's number; or an empty string.
std::string checkPlan(const StepProgram &program, const StepPlan &plan);

/// @program as @plan wants it. A repeated launch stands right before its first
/// reader, with the gather that it needs; a group of gathers where its first
/// one stood, with the casts; a group of reductions where its last one stood. A
/// value goes to the host right behind its last reader in forward, and comes
/// back right before its first one in backward, repeated launches among them.
/// Nobody has placed the buffers. @plan must satisfy checkPlan.
StepProgram applyPlan(const StepProgram &program, const StepPlan &plan);

} // namespace mlir::fsdp::sched

#endif // FSDP_PLANNING_STEPPLAN_H
