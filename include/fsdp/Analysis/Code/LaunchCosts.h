//===- LaunchCosts.h - What a kernel's code for GPUs does -------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_ANALYSIS_CODE_LAUNCHCOSTS_H
#define FSDP_ANALYSIS_CODE_LAUNCHCOSTS_H

#include "fsdp/Cost/CostModel.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::fsdp {

/// What a call of @kernel launches on CUDA devices, counted in the functions of
/// its #fsdp.cuda_code; empty where it has none.
///
/// An integer is known as the interval of its values over all threads and
/// iterations, in which each is taken as equally frequent. From that follow the
/// iterations of a loop and how often a branch is taken, as means over threads;
/// a branch on data, on addresses, or on what an interval does not say is
/// taken, and a loop to such a bound has one iteration. Instructions are those
/// of the ops as they stand, some in fixed numbers (functions of math), before
/// LLVM simplifies them.
llvm::SmallVector<LaunchCost, 0> getLaunchCosts(func::FuncOp kernel);

} // namespace mlir::fsdp

#endif // FSDP_ANALYSIS_CODE_LAUNCHCOSTS_H
