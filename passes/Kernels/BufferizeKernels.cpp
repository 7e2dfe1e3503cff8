//===- BufferizeKernels.cpp - Tensors become memory, inside kernels -------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KernelUtils.h"
#include "fsdp/Passes/Passes.h"

#include "mlir/Dialect/Bufferization/Transforms/OneShotAnalysis.h"
#include "mlir/Dialect/Bufferization/Transforms/OneShotModuleBufferize.h"
#include "mlir/Dialect/Bufferization/Transforms/Transforms.h"
#include "mlir/Dialect/Linalg/Utils/Utils.h"

namespace mlir::fsdp {
#define GEN_PASS_DEF_BUFFERIZEKERNELS
#include "fsdp/Passes/Passes.h.inc"
} // namespace mlir::fsdp

using namespace mlir;
using namespace mlir::fsdp;

static bufferization::OneShotBufferizationOptions getOptions() {
  bufferization::OneShotBufferizationOptions options;
  options.bufferizeFunctionBoundaries = true;
  options.setFunctionBoundaryTypeConversion(
      bufferization::LayoutMapOption::IdentityLayoutMap);
  options.allowReturnAllocsFromLoops = true;
  options.memCpyFn = [](OpBuilder &builder, Location loc, Value from,
                        Value to) -> LogicalResult {
    linalg::makeMemRefCopyOp(builder, loc, from, to);
    return success();
  };
  return options;
}

namespace {
struct BufferizeKernels : fsdp::impl::BufferizeKernelsBase<BufferizeKernels> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    IRRewriter rewriter(&getContext());
    bufferization::OneShotBufferizationOptions options = getOptions();
    bufferization::BufferizationState state;
    if (failed(bufferization::eliminateEmptyTensors(rewriter, module)) ||
        failed(
            bufferization::runOneShotModuleBufferize(module, options, state)))
      signalPassFailure();
  }
};
} // namespace
