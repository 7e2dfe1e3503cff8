//===- IsolateStep.h - The step and nothing else ----------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_PASSES_ISOLATESTEP_H
#define FSDP_PASSES_ISOLATESTEP_H

#include "mlir/IR/BuiltinOps.h"

namespace mlir::fsdp {

/// Whether @module, of L0, has functions beside the step and the optimizer.
bool hasHelpers(ModuleOp module);

/// What fsdp-isolate-step does to a module that verifyInputModule accepts.
void isolateStep(ModuleOp module);

} // namespace mlir::fsdp

#endif // FSDP_PASSES_ISOLATESTEP_H
