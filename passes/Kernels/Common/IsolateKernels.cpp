//===- IsolateKernels.cpp - Kernels that upstream passes lower ------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Kernels/Common/KernelUtils.h"
#include "fsdp/Passes/Passes.h"

#include "mlir/Dialect/Linalg/Transforms/Transforms.h"
#include "mlir/Dialect/Tensor/Transforms/Transforms.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

namespace mlir::fsdp {
#define GEN_PASS_DEF_ISOLATEKERNELS
#include "fsdp/Passes/Passes.h.inc"
} // namespace mlir::fsdp

using namespace mlir;
using namespace mlir::fsdp;

/// What is read stays as it is; destinations, one per result, may be written.
static void markWritable(func::FuncOp func) {
  unsigned inputs = func.getNumArguments() - func.getNumResults();
  Builder builder(func.getContext());
  for (unsigned i = 0, e = func.getNumArguments(); i != e; ++i)
    func.setArgAttr(i, bufferization::BufferizationDialect::kWritableAttrName,
                    builder.getBoolAttr(i >= inputs));
}

namespace {
struct IsolateKernels : fsdp::impl::IsolateKernelsBase<IsolateKernels> {
  using IsolateKernelsBase::IsolateKernelsBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    ModuleOp nested;
    for (func::FuncOp kernel : getKernels(module)) {
      if (hasCodeFor(kernel, target))
        continue;
      if (!nested) {
        if (Operation *other =
                SymbolTable::lookupSymbolIn(module, kFallbackModule)) {
          other->emitError("expected no @")
              << kFallbackModule
              << ", where kernels without code of their own go, got one";
          return signalPassFailure();
        }
        OpBuilder builder = OpBuilder::atBlockEnd(module.getBody());
        nested = ModuleOp::create(builder, module.getLoc(), kFallbackModule);
      }
      OpBuilder builder = OpBuilder::atBlockEnd(nested.getBody());
      auto copy = cast<func::FuncOp>(builder.clone(*kernel));
      copy.setSymName(getFallbackName(kernel, target));
      // Private functions without callers would be removed on the way.
      copy.setPublic();
      markWritable(copy);
    }
    if (!nested)
      return markAllAnalysesPreserved();
    RewritePatternSet patterns(&getContext());
    tensor::populateDecomposeTensorConcatPatterns(patterns);
    linalg::populateDecomposePadPatterns(patterns);
    if (failed(applyPatternsGreedily(nested, std::move(patterns))))
      signalPassFailure();
  }
};
} // namespace
