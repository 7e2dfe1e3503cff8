//===- SharedBuffers.h - Which values of a step are one buffer --*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_ARENA_SHAREDBUFFERS_H
#define FSDP_ARENA_SHAREDBUFFERS_H

#include "fsdp/Schedule/StepProgram.h"

namespace mlir::fsdp {

/// Decides which values of @program are one buffer in the order of its ops,
/// whatever it says now: parts are computed inside of their pack, results over
/// what they are tied to, a new state over the old one, an all_reduce over its
/// input, where nothing reads what was there any more. What is not so is
/// copied: ops get the bytes of that, and the end copies of states. Buffers lie
/// one behind the other until placeBuffers places them.
void shareBuffers(sched::StepProgram &program);

} // namespace mlir::fsdp

#endif // FSDP_ARENA_SHAREDBUFFERS_H
