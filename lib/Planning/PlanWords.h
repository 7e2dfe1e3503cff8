//===- PlanWords.h - A plan in words ----------------------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_LIB_PLANNING_PLANWORDS_H
#define FSDP_LIB_PLANNING_PLANWORDS_H

#include "PlanSpace.h"

namespace mlir::fsdp::sched {

/// Fills the decisions and the summary of @step, which was chosen from @space.
/// @isShort: the search ended for want of memory rather than of use.
void putInWords(const PlanSpace &space, bool isShort, PlannedStep &step);

} // namespace mlir::fsdp::sched

#endif // FSDP_LIB_PLANNING_PLANWORDS_H
