//===- RulePlan.h - Decisions that need no cost model -----------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_PLANNING_RULEPLAN_H
#define FSDP_PLANNING_RULEPLAN_H

#include "fsdp/Planning/PlanRules.h"
#include "fsdp/Planning/StepPlan.h"

namespace mlir::fsdp::sched {

/// @plan with what checkpoints ask (StepOp::checkpoint): backward computes
/// again what launches of a checkpointed module made for that module alone.
/// What other launches of forward read is kept, as is what @plan offloads.
/// Values that nobody would read again are left out.
StepPlan addCheckpoints(const StepProgram &program, StepPlan plan);

/// @given with what the rules decide alone: all gathers are kept where
/// @rules.keep is Always, all that saves memory is computed again where
/// @rules.recompute is Full, what checkpoints ask besides. `Auto` decides
/// nothing. How long forward's stretches are, within which Full repeats, is
/// said by bytes and arithmetic of kernels, not by a cluster.
StepPlan planByRules(const StepProgram &program, const PlanRules &rules,
                     StepPlan given);

} // namespace mlir::fsdp::sched

#endif // FSDP_PLANNING_RULEPLAN_H
