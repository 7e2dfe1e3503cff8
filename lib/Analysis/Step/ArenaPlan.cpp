//===- ArenaPlan.cpp - Where every value of a step lies -------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Analysis/Step/ArenaPlan.h"
#include "fsdp/Analysis/Step/StepExtraction.h"
#include "fsdp/Arena/SharedBuffers.h"

using namespace mlir;
using namespace mlir::fsdp;

FailureOr<ArenaPlan> fsdp::planArena(ProgramOp step,
                                     const ArenaOptions &options) {
  FailureOr<StepMemory> memory = extractStepMemory(step);
  if (failed(memory))
    return failure();
  shareBuffers(memory->program);
  ArenaPlan plan;
  static_cast<ArenaSummary &>(plan) = placeBuffers(memory->program, options);
  for (auto &[value, place] : memory->places)
    plan.offsets[value] =
        memory->program.values[place.value].offset + place.distance;
  return plan;
}
