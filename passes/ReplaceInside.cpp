//===- ReplaceInside.cpp - Another value for one reader -------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Passes/ReplaceInside.h"

using namespace mlir;
using namespace mlir::fsdp;

void fsdp::replaceInside(Operation *user, Value from, Value to) {
  // What it reads is less than all that reads the value.
  user->walk([&](Operation *op) { op->replaceUsesOfWith(from, to); });
}
