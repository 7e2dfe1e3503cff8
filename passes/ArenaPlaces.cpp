//===- ArenaPlaces.cpp - Places that no longer hold -----------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Passes/ArenaPlaces.h"
#include "fsdp/Analysis/Contract/InputContract.h"

using namespace mlir;
using namespace mlir::fsdp;

void fsdp::removeArenaPlaces(ProgramOp step) {
  step.removeArenaAttr();
  for (unsigned i = 0, e = step.getNumArguments(); i != e; ++i)
    step.removeArgAttr(i, names::kOffset);
  step.walk([](Operation *op) { op->removeAttr(names::kOffsets); });
}
