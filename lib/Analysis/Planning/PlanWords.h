//===- PlanWords.h - A plan in words ----------------------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_LIB_ANALYSIS_PLANNING_PLANWORDS_H
#define FSDP_LIB_ANALYSIS_PLANNING_PLANWORDS_H

#include "fsdp/Analysis/Planning/Offloading.h"
#include "fsdp/Analysis/Planning/PlanSearch.h"

namespace mlir::fsdp::sched {

/// What a plan was chosen from.
struct PlanContext {
  const StepProgram &program;
  const TimedProgram &times;
  const PlanChoices &choices;
  const OffloadOffers &offers;
  const PlanRules &rules;
  const StepPlan &given;
  /// The search ended for want of memory rather than of use.
  bool isShort = false;
};

/// What a gather brings.
int64_t getGatheredBytes(const StepProgram &program, Id gather);
/// What @plan keeps on the host.
int64_t getHostBytes(const StepProgram &program, const StepPlan &plan);

/// Fills the decisions and the summary of @step.
void putInWords(const PlanContext &context, PlannedStep &step);

} // namespace mlir::fsdp::sched

#endif // FSDP_LIB_ANALYSIS_PLANNING_PLANWORDS_H
