//===- StepArena.h - What the arena of a step takes -------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_ANALYSIS_STEPARENA_H
#define FSDP_ANALYSIS_STEPARENA_H

#include "fsdp/Analysis/Schedule/StepProgram.h"

namespace mlir::fsdp {

/// What the device's arena takes for @program's buffers in the order of its
/// ops, packed by the functions of fsdp-plan-arena. What lies in which buffer is
/// what @program says: fsdp-plan-arena may decide that anew for another order.
/// Bytes.
int64_t packArena(const sched::StepProgram &program);

} // namespace mlir::fsdp

#endif // FSDP_ANALYSIS_STEPARENA_H
