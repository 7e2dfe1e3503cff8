//===- Sweep.h - Plans of a step for many options ---------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_PLAN_SWEEP_H
#define FSDP_PLAN_SWEEP_H

#include "fsdp/Plan/Report/SweepReport.h"

#include "llvm/Support/Error.h"

namespace mlir::fsdp {

/// Reads "mesh=shard=8;shard=64 strategy=full_shard;shard_grad_op": axes apart
/// by spaces, values by semicolons. Each text adds axes. Names are those of
/// options; `budget` is short for `memory-budget`.
llvm::Expected<std::vector<SweepAxis>>
parseSweep(llvm::ArrayRef<std::string> texts);

} // namespace mlir::fsdp

#endif // FSDP_PLAN_SWEEP_H
