//===- UpstreamFunctions.cpp - A compiler with MLIR's polynomials ---------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// For tests: linked with the command line of fsdp-compile, this definition
// stands in place of fsdp-expand-math. Functions of f32 are MLIR's polynomials,
// and expm1 of f64 is exp(x) - 1. functions.py shows that it notices.
//
//===----------------------------------------------------------------------===//

#include "fsdp/Passes/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Math/Transforms/Passes.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

using namespace mlir;

namespace {
struct Approximate : PassWrapper<Approximate, OperationPass<>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(Approximate)
  StringRef getArgument() const override { return "test-approximate"; }
  StringRef getDescription() const override { return "MLIR's polynomials"; }
  void getDependentDialects(DialectRegistry &registry) const override {
    registry.insert<arith::ArithDialect, math::MathDialect,
                    vector::VectorDialect>();
  }
  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    populateMathPolynomialApproximationPatterns(patterns);
    (void)applyPatternsGreedily(getOperation(), std::move(patterns));
  }
};
} // namespace

std::unique_ptr<Pass> mlir::fsdp::createExpandMath() {
  return std::make_unique<Approximate>();
}
std::unique_ptr<Pass>
mlir::fsdp::createExpandMath(mlir::fsdp::ExpandMathOptions) {
  return std::make_unique<Approximate>();
}
