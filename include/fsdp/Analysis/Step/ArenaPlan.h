//===- ArenaPlan.h - Where every value of a step lies -----------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What StepArena.h says of a step, for the values of its IR.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_ANALYSIS_STEP_ARENAPLAN_H
#define FSDP_ANALYSIS_STEP_ARENAPLAN_H

#include "fsdp/Arena/ArenaPacking.h"
#include "fsdp/Arena/StepArena.h"

#include "fsdp/Dialect/FSDP/IR/FSDP.h"

namespace mlir::fsdp {

struct ArenaPlan : ArenaSummary {
  /// Byte offset of each value from the start of its arena: of the host's one
  /// for what is of !fsdp.host. Values of one offset may be the same memory
  /// (views, parts of a pack, tied results).
  llvm::DenseMap<Value, int64_t> offsets;
};

/// Plans the arena of @step, which must be a straight list of launches,
/// collectives, packs, views and checks, of tensors of static shapes. Reports
/// transfers that it does not know.
FailureOr<ArenaPlan> planArena(ProgramOp step,
                               const ArenaOptions &options = {});

} // namespace mlir::fsdp

#endif // FSDP_ANALYSIS_STEP_ARENAPLAN_H
