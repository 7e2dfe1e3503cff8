//===- ArenaPlaces.h - Places that no longer hold ---------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_PASSES_ARENAPLACES_H
#define FSDP_PASSES_ARENAPLACES_H

#include "fsdp/Dialect/FSDP/IR/FSDP.h"

namespace mlir::fsdp {

/// Removes what fsdp-plan-arena wrote on @step: whoever changes the step does.
void removeArenaPlaces(ProgramOp step);

} // namespace mlir::fsdp

#endif // FSDP_PASSES_ARENAPLACES_H
