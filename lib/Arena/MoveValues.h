//===- MoveValues.h - Other places for values -------------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_LIB_ARENA_MOVEVALUES_H
#define FSDP_LIB_ARENA_MOVEVALUES_H

#include "fsdp/Schedule/StepProgram.h"

namespace mlir::fsdp {

/// Moves each value of @program by so many bytes, and all that is said of bytes
/// in it.
void moveValues(sched::StepProgram &program, llvm::ArrayRef<int64_t> distances);

} // namespace mlir::fsdp

#endif // FSDP_LIB_ARENA_MOVEVALUES_H
