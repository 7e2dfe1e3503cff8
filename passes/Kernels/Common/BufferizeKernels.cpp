//===- BufferizeKernels.cpp - Tensors become memory, inside kernels -------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Kernels/Common/KernelUtils.h"
#include "Kernels/Common/SumBlocks.h"
#include "fsdp/Passes/Passes.h"

#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Bufferization/Transforms/OneShotAnalysis.h"
#include "mlir/Dialect/Bufferization/Transforms/OneShotModuleBufferize.h"
#include "mlir/Dialect/Bufferization/Transforms/Transforms.h"
#include "mlir/Dialect/Linalg/Utils/Utils.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Interfaces/LoopLikeInterface.h"

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

/// Whether @value is @dest, or what ops that nobody else reads wrote over it: a
/// fill before a loop that scatters.
static bool isWrittenOver(Value value, Value dest) {
  while (value != dest) {
    auto result = dyn_cast<OpResult>(value);
    auto writer = result
                      ? dyn_cast<DestinationStyleOpInterface>(result.getOwner())
                      : DestinationStyleOpInterface();
    if (!writer || !result.hasOneUse())
      return false;
    value = writer.getTiedOpOperand(result)->get();
  }
  return true;
}

/// A loop that now starts at the destination need not be stored there; upstream
/// would see a conflict between the two.
static void dropStoresInPlace(ModuleOp module, RewriterBase &rewriter) {
  SmallVector<bufferization::MaterializeInDestinationOp> stores;
  module.walk([&](bufferization::MaterializeInDestinationOp op) {
    stores.push_back(op);
  });
  for (bufferization::MaterializeInDestinationOp store : stores) {
    auto result = dyn_cast<OpResult>(store.getSource());
    auto loop = result ? dyn_cast<LoopLikeOpInterface>(result.getOwner())
                       : LoopLikeOpInterface();
    OpOperand *init = loop ? loop.getTiedLoopInit(result) : nullptr;
    if (init && isWrittenOver(init->get(), store.getDest()) &&
        result.hasOneUse())
      rewriter.replaceOp(store, result);
  }
}

/// Upstream names neither the op nor what it lacks.
static LogicalResult verifyBufferizable(ModuleOp module) {
  auto isTensor = llvm::IsaPred<TensorType>;
  WalkResult result = module.walk([&](Operation *op) {
    if (isa<bufferization::BufferizableOpInterface>(op) ||
        (llvm::none_of(op->getOperandTypes(), isTensor) &&
         llvm::none_of(op->getResultTypes(), isTensor)))
      return WalkResult::advance();
    op->emitError("expected an op on tensors that can be lowered to linalg or "
                  "bufferized, got '")
        << op->getName() << "'";
    return WalkResult::interrupt();
  });
  return failure(result.wasInterrupted());
}

namespace {
struct BufferizeKernels : fsdp::impl::BufferizeKernelsBase<BufferizeKernels> {
  void getDependentDialects(DialectRegistry &registry) const override {
    BufferizeKernelsBase::getDependentDialects(registry);
    // What long sums become.
    registry.insert<arith::ArithDialect, affine::AffineDialect,
                    scf::SCFDialect>();
  }

  void runOnOperation() override {
    ModuleOp module = getOperation();
    IRRewriter rewriter(&getContext());
    bufferization::OneShotBufferizationOptions options = getOptions();
    bufferization::BufferizationState state;
    if (failed(verifyBufferizable(module)))
      return signalPassFailure();
    if (failed(bufferization::eliminateEmptyTensors(rewriter, module)))
      return signalPassFailure();
    dropStoresInPlace(module, rewriter);
    if (failed(
            bufferization::runOneShotModuleBufferize(module, options, state)))
      return signalPassFailure();
    lowerLongSums(module);
  }
};
} // namespace
