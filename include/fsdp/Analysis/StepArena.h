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
/// ops, packed as fsdp-plan-arena would. Bytes.
int64_t packArena(const sched::StepProgram &program);

} // namespace mlir::fsdp

#endif // FSDP_ANALYSIS_STEPARENA_H
