//===- TieInits.cpp - Kernels that accumulate work in place ---------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KernelUtils.h"
#include "fsdp/Analysis/Kernels/ComputeOps.h"
#include "fsdp/Passes/Passes.h"

#include "mlir/Dialect/Tensor/IR/Tensor.h"

namespace mlir::fsdp {
#define GEN_PASS_DEF_TIEINITS
#include "fsdp/Passes/Passes.h.inc"
} // namespace mlir::fsdp

using namespace mlir;
using namespace mlir::fsdp;

/// The operand that the result of `op` starts as; null where it starts afresh.
static OpOperand *getInitOperand(OpResult result) {
  Operation *op = result.getOwner();
  if (auto loop = dyn_cast<scf::ForOp>(op))
    return loop.getTiedLoopInit(
        loop.getRegionIterArg(result.getResultNumber()));
  if (auto insert = dyn_cast<tensor::InsertSliceOp>(op))
    return &insert.getDestMutable();
  if (auto dps = dyn_cast<linalg::LinalgOp>(op))
    if (isContraction(op))
      return dps.getDpsInitOperand(result.getResultNumber());
  return nullptr;
}

/// The input that result `index` of the kernel starts as, if nothing else in
/// the kernel reads it.
static std::optional<unsigned> getInitInput(func::FuncOp kernel,
                                            unsigned index) {
  auto store = kernel.getBody()
                   .front()
                   .getTerminator()
                   ->getOperand(index)
                   .getDefiningOp<bufferization::MaterializeInDestinationOp>();
  auto result = store ? dyn_cast<OpResult>(store.getSource()) : OpResult();
  OpOperand *init = result ? getInitOperand(result) : nullptr;
  // Parts that are written one after another.
  while (init && init->get().hasOneUse())
    if (auto insert = init->get().getDefiningOp<tensor::InsertSliceOp>())
      init = &insert.getDestMutable();
    else
      break;
  auto arg = init ? dyn_cast<BlockArgument>(init->get()) : BlockArgument();
  unsigned inputs = kernel.getNumArguments() - kernel.getNumResults();
  if (!arg || arg.getOwner() != &kernel.getBody().front() ||
      arg.getArgNumber() >= inputs || !arg.hasOneUse() ||
      arg.getType() != result.getType())
    return std::nullopt;
  return arg.getArgNumber();
}

/// What is computed in the destination need not be stored there. (A matrix
/// product is never bufferized; it keeps the form of other kernels.)
static void writeInPlace(func::FuncOp kernel, unsigned index) {
  Operation *ret = kernel.getBody().front().getTerminator();
  auto store = ret->getOperand(index)
                   .getDefiningOp<bufferization::MaterializeInDestinationOp>();
  Operation *producer = store.getSource().getDefiningOp();
  if (isContraction(producer))
    return;
  ret->setOperand(index, store.getSource());
  store.erase();
}

namespace {
struct TieInits : fsdp::impl::TieInitsBase<TieInits> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    llvm::DenseMap<StringRef, SmallVector<LaunchOp>> launches;
    module.walk([&](LaunchOp op) { launches[op.getKernel()].push_back(op); });
    for (func::FuncOp kernel : getKernels(module)) {
      unsigned results = kernel.getNumResults(),
               inputs = kernel.getNumArguments() - results;
      for (unsigned i = 0; i != results; ++i) {
        std::optional<unsigned> input = getInitInput(kernel, i);
        if (!input)
          continue;
        kernel.getArgument(*input).replaceAllUsesWith(
            kernel.getArgument(inputs + i));
        writeInPlace(kernel, i);
        for (LaunchOp launch : launches[kernel.getSymName()])
          launch.setTiedInput(i, *input);
      }
    }
  }
};
} // namespace
