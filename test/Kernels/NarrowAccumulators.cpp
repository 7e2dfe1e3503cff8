//===- NarrowAccumulators.cpp - A compiler that adds up as traced ---------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// For tests: linked with the command line of fsdp-compile, these definitions
// stand in place of two passes. Narrow floats are added up in their own type:
// accumulators are not widened, and no product goes to a BLAS, which would add
// in f32. accumulations.py shows that it notices. SerialSums.cpp goes with it:
// blocks of few terms lose little in narrow floats, too.
//
//===----------------------------------------------------------------------===//

#include "fsdp/Passes/Passes.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

using namespace mlir;

namespace {
struct LeaveAlone : PassWrapper<LeaveAlone, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(LeaveAlone)
  StringRef getArgument() const override { return "test-leave-alone"; }
  StringRef getDescription() const override { return "Does nothing"; }
  void runOnOperation() override { markAllAnalysesPreserved(); }
};
} // namespace

std::unique_ptr<Pass> mlir::fsdp::createWidenAccumulators() {
  return std::make_unique<LeaveAlone>();
}

std::unique_ptr<Pass> mlir::fsdp::createMatchMatmuls() {
  return std::make_unique<LeaveAlone>();
}

std::unique_ptr<Pass> mlir::fsdp::createMatchMatmuls(MatchMatmulsOptions) {
  return std::make_unique<LeaveAlone>();
}
