//===- PlanRewrite.h - What a plan makes of a program -----------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_LIB_PLANNING_PLANREWRITE_H
#define FSDP_LIB_PLANNING_PLANREWRITE_H

#include "fsdp/Planning/StepPlan.h"

namespace mlir::fsdp::sched {

/// @program with what @plan keeps and computes again. The source of each op is
/// the op of @program that the plan decides about.
StepProgram keepAndRepeat(const StepProgram &program, const StepPlan &plan);

/// @program with the transfers of a group issued together. @group: by op, -1
/// for those in none.
StepProgram groupTransfers(const StepProgram &program,
                           const std::vector<Id> &group);

} // namespace mlir::fsdp::sched

#endif // FSDP_LIB_PLANNING_PLANREWRITE_H
