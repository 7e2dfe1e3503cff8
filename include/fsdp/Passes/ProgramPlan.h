//===- ProgramPlan.h - A program's plan, found and written ------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What fsdp-plan-step does, for those who compare plans before they take one.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_PASSES_PROGRAMPLAN_H
#define FSDP_PASSES_PROGRAMPLAN_H

#include "fsdp/Cost/Cluster.h"
#include "fsdp/Dialect/FSDP/IR/FSDP.h"
#include "fsdp/Planning/PlanSearch.h"
#include "fsdp/Planning/StepFit.h"
#include "fsdp/Schedule/ScheduleProblem.h"

namespace mlir::fsdp {

struct ExtractedStep;

/// A plan and an order of it, and what these take.
struct ProgramPlan {
  /// Bytes of a smallest arena, where none fits; else 0.
  int64_t leastBytes = 0;
  sched::PlannedStep planned;
  sched::Schedule schedule;
  sched::StepTrials::Outcome outcome;

  bool fits() const { return leastBytes == 0; }
};

/// The fastest plan and order of @step, whose program has a draft of its arena,
/// that sched::fitStep finds for an arena of @budget bytes. Plan attributes
/// that the program has stand. Cost: all plans and orders that are tried.
llvm::Expected<ProgramPlan> findPlan(const ExtractedStep &step,
                                     const Cluster &cluster, int64_t budget,
                                     const sched::PlanRules &rules);

/// The decisions that the IR of @step holds, which must have been extracted.
/// Reports one that cannot be made.
FailureOr<sched::StepPlan> readDecisions(const ExtractedStep &step);
/// Writes @plan, of @step, as attributes of its ops.
void writeDecisions(const ExtractedStep &step, const sched::StepPlan &plan);

/// Writes a plan that fits, and was found for a program like @program, which
/// @step is of, as attributes of its ops and as its fsdp.order; makes a remark
/// of each decision.
LogicalResult writePlan(ProgramOp program, const ExtractedStep &step,
                        const ProgramPlan &plan);

/// The attribute of an order whose arena takes @arenaBytes.
StepOrderAttr writeOrder(MLIRContext *context, const sched::Schedule &schedule,
                         int64_t arenaBytes);

} // namespace mlir::fsdp

#endif // FSDP_PASSES_PROGRAMPLAN_H
