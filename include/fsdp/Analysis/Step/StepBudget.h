//===- StepBudget.h - What the arenas of programs may take ------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_ANALYSIS_STEP_STEPBUDGET_H
#define FSDP_ANALYSIS_STEP_STEPBUDGET_H

#include "fsdp/Cost/Cluster.h"
#include "fsdp/Dialect/FSDP/IR/FSDP.h"

#include <optional>
#include <string>

namespace mlir::fsdp {

/// Bytes beside the arena of a thread that runs the kernels of @module, which
/// have their code: the largest scratch memory, and that of products.
int64_t getThreadBytes(ModuleOp module);

/// What a rank on @cluster may use: @memory bytes, or what the device has where
/// that is 0. Reserved is what the cluster says, or what one thread takes with
/// the kernels of @module whose code is known, if that is more.
BudgetAttr getBudget(ModuleOp module, const Cluster &cluster, int64_t memory);

/// Bytes for an arena by fsdp.budget of @module, at most 0 where there is room
/// for none; nullopt where it has no budget.
std::optional<int64_t> getArenaBudget(ModuleOp module);

/// Why an arena of @program is refused, whose least takes @needed bytes, in
/// words: the memory budget of its module, which has one, that would do.
/// @clusterFile describes @cluster.
std::string describeMisfit(ProgramOp program, int64_t needed,
                           const Cluster &cluster, llvm::StringRef clusterFile);

} // namespace mlir::fsdp

#endif // FSDP_ANALYSIS_STEP_STEPBUDGET_H
