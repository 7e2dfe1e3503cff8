//===- KernelUtils.cpp - Kernels and their implementations ----------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KernelUtils.h"
#include "fsdp/Analysis/Contract/InputContract.h"
#include "fsdp/Analysis/Contract/TensorSizes.h"
#include "fsdp/Analysis/Kernels/PitchedRows.h"
#include "fsdp/Dialect/FSDP/IR/FSDP.h"

#include "mlir/Dialect/MemRef/IR/MemRef.h"

using namespace mlir;
using namespace mlir::fsdp;

SmallVector<func::FuncOp> fsdp::getKernels(ModuleOp module) {
  SymbolTable symbols(module);
  llvm::SetVector<func::FuncOp> kernels;
  module.walk([&](LaunchOp op) {
    auto kernel = symbols.lookup<func::FuncOp>(op.getKernel());
    if (kernel && !kernel.isExternal())
      kernels.insert(kernel);
  });
  return kernels.takeVector();
}

bool fsdp::hasImplementation(func::FuncOp kernel) {
  return kernel->hasAttr(names::kImpl) || kernel->hasAttr(names::kMatmul);
}

bool fsdp::hasCodeFor(func::FuncOp kernel, StringRef target) {
  return getImplementation(kernel, target) || kernel->hasAttr(names::kMatmul);
}

const ContractionPlan *fsdp::getOnlyPlan(func::FuncOp kernel,
                                         const ContractionPlans &plans) {
  if (kernel.getNumResults() != 1)
    return nullptr;
  bufferization::MaterializeInDestinationOp store = getResultStore(kernel, 0);
  for (Operation &op : kernel.getBody().front())
    if (const ContractionPlan *plan = plans.lookup(&op)) {
      auto isArgument = [](Value read) {
        return !read || isa<BlockArgument>(read);
      };
      bool whole = store && store.getSource() == plan->result &&
                   isArgument(plan->sourceA) && isArgument(plan->sourceB) &&
                   isArgument(plan->bias) && isArgument(plan->addend);
      return whole ? plan : nullptr;
    }
  return nullptr;
}

std::string fsdp::getFallbackName(func::FuncOp kernel, StringRef target) {
  return (kernel.getSymName() + "_" + target).str();
}

int64_t fsdp::getArgumentBytes(func::FuncOp kernel) {
  int64_t bytes = 0;
  for (Type type : kernel.getArgumentTypes())
    bytes += getTensorBytes(type);
  return bytes;
}
