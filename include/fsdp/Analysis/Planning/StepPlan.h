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

#ifndef FSDP_ANALYSIS_PLANNING_STEPPLAN_H
#define FSDP_ANALYSIS_PLANNING_STEPPLAN_H

#include "fsdp/Analysis/Schedule/StepProgram.h"

namespace mlir::fsdp::sched {

/// For a program in L2's order.
struct StepPlan {
  /// By op: gathers that do not happen, because what an earlier gather brought
  /// is kept.
  std::vector<bool> keep;
  /// By value: results of forward's launches that are not kept for backward.
  /// Their launches are repeated where backward reads them.
  std::vector<bool> recompute;
  /// By op: starts with the same number are issued together; -1: alone.
  std::vector<Id> group;

  StepPlan() = default;
  explicit StepPlan(const StepProgram &program)
      : keep(program.ops.size()), recompute(program.values.size()),
        group(program.ops.size(), -1) {}
};

/// What the planner may ask for, by op.
struct PlanChoices {
  /// A gather: the earlier gather of the same bytes; -1 elsewhere.
  std::vector<Id> earlierGather;
  /// Launches whose results StepPlan::recompute may name: they run in forward,
  /// write memory of their own, and what they read of gathered parameters is
  /// gathered again for backward, or there still.
  std::vector<bool> canRecompute;
};
PlanChoices getPlanChoices(const StepProgram &program);

/// The first wrong entry of @plan, or an empty string.
std::string checkPlan(const StepProgram &program, const StepPlan &plan);

/// @program as @plan wants it. A repeated launch stands right before its first
/// reader, with the gather that it needs; a group of gathers where its first
/// one stood, with the casts; a group of reductions where its last one stood.
/// Nobody has placed the buffers. @plan must satisfy checkPlan.
StepProgram applyPlan(const StepProgram &program, const StepPlan &plan);

} // namespace mlir::fsdp::sched

#endif // FSDP_ANALYSIS_PLANNING_STEPPLAN_H
