//===- AdoptKernels.cpp - Bufferized functions as code of kernels ---------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CpuKernels.h"
#include "Kernels/Common/BufferizedKernels.h"
#include "Kernels/Common/KernelUtils.h"
#include "fsdp/Analysis/Contract/InputContract.h"
#include "fsdp/Passes/Passes.h"

#include "mlir/Dialect/MemRef/IR/MemRef.h"

namespace mlir::fsdp {
#define GEN_PASS_DEF_ADOPTKERNELS
#include "fsdp/Passes/Passes.h.inc"
} // namespace mlir::fsdp

using namespace mlir;
using namespace mlir::fsdp;

namespace {
struct AdoptKernels : fsdp::impl::AdoptKernelsBase<AdoptKernels> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    auto nested = module.lookupSymbol<ModuleOp>(kFallbackModule);
    if (!nested)
      return markAllAnalysesPreserved();
    for (func::FuncOp kernel : getKernels(module)) {
      if (hasCodeFor(kernel, kCpuTarget))
        continue;
      func::FuncOp body = getBufferized(nested, kernel, kCpuTarget);
      if (!body)
        return signalPassFailure();
      if (failed(adopt(kernel, body)))
        return signalPassFailure();
    }
    moveConstants(nested, module);
    nested.erase();
  }

private:
  LogicalResult adopt(func::FuncOp kernel, func::FuncOp body) {
    if (failed(prepareBufferized(body)))
      return failure();
    OpBuilder builder(kernel);
    builder.setInsertionPointAfter(kernel);
    Type index = builder.getIndexType();
    Location loc = kernel.getLoc();
    Block &block = body.getBody().front();
    Value scratch =
        block.insertArgument(0u, getScratchType(&getContext(), 0), loc);
    block.insertArgument(0u, index, loc);
    block.insertArgument(0u, index, loc);
    FailureOr<int64_t> bytes = placeBuffers(
        getBuffers(body), kBufferAlignment,
        [&](OpBuilder &builder, MemRefType type, Value offset) -> Value {
          return memref::ViewOp::create(builder, loc, type, scratch, offset,
                                        ValueRange{});
        });
    if (failed(bytes))
      return failure();
    scratch.setType(getScratchType(&getContext(), *bytes));
    auto impl = createCpuKernel(
        kernel, builder, llvm::to_vector(block.getArgumentTypes()),
        /*grid=*/1, /*grain=*/1, *bytes, getArgumentBytes(kernel));
    impl.getBody().takeBody(body.getBody());
    body.erase();
    return success();
  }
};
} // namespace
