//===- KernelTies.cpp - Kernels that work in place ------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Analysis/Kernels/KernelTies.h"
#include "fsdp/Analysis/Kernels/ComputeOps.h"
#include "fsdp/Analysis/Kernels/PitchedRows.h"
#include "fsdp/Dialect/FSDP/IR/FSDP.h"

#include "mlir/Dialect/Bufferization/IR/Bufferization.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "llvm/ADT/DenseMap.h"

using namespace mlir;
using namespace mlir::fsdp;

/// Whether a kernel depends on what lies in @destination, where it writes.
static bool readsDestination(Value destination) {
  return llvm::any_of(destination.getUses(), [](OpOperand &use) {
    Operation *op = use.getOwner();
    if (auto slice = dyn_cast<tensor::ExtractSliceOp>(op))
      return readsDestination(slice);
    if (auto insert = dyn_cast<tensor::InsertSliceOp>(op))
      return !isInsertionOfStored(insert);
    if (auto store = dyn_cast<bufferization::MaterializeInDestinationOp>(op))
      return &use != &store.getDestMutable();
    if (isa<func::ReturnOp>(op))
      return false;
    if (auto linalgOp = dyn_cast<linalg::LinalgOp>(op))
      return !linalgOp.isDpsInit(&use) ||
             linalgOp.payloadUsesValueFromOperand(&use);
    return true;
  });
}

/// Whether an op reads elements of @input other than the one that it writes: of
/// a product, or at places that it computes.
static bool readsElsewhere(BlockArgument input) {
  return llvm::any_of(input.getUsers(), [](Operation *op) {
    return isContraction(op) || isa<tensor::ExtractOp>(op);
  });
}

/// Why a launch of @kernel may not have @result tied to @input (-1: to
/// nothing), or an empty string.
static StringRef findWrongTie(func::FuncOp kernel, int64_t input,
                              unsigned result) {
  if (input < 0)
    return !readsDestination(kernel.getArgument(
               kernel.getNumArguments() - kernel.getNumResults() + result))
               ? ""
               : "tied to what it starts as, since its kernel goes on with "
                 "what lies there";
  // Only what surely needs the old value behind the first new one is wrong: not
  // all that may be in place can be told.
  if (!readsElsewhere(kernel.getArgument(input)))
    return "";
  return "apart from the input that it is tied to, which its kernel still "
         "needs when it writes there";
}

LogicalResult fsdp::checkTies(ProgramOp step) {
  SymbolTable symbols(step->getParentOp());
  // Many launches are of one kernel.
  llvm::DenseMap<std::pair<Operation *, std::pair<int64_t, unsigned>>,
                 StringRef>
      known;
  for (auto launch : step.getOps<LaunchOp>()) {
    auto kernel = symbols.lookup<func::FuncOp>(launch.getKernel());
    if (!kernel || kernel.isExternal())
      continue;
    for (unsigned result = 0; result != launch.getNumResults(); ++result) {
      int64_t input = launch.getTiedInput(result);
      auto [it, isNew] = known.try_emplace({kernel, {input, result}});
      if (isNew)
        it->second = findWrongTie(kernel, input, result);
      if (it->second.empty())
        continue;
      auto error = launch.emitOpError("expected result ")
                   << result << " to be " << it->second;
      error.attachNote(kernel.getLoc()) << "the kernel is here";
      return error;
    }
  }
  return success();
}
