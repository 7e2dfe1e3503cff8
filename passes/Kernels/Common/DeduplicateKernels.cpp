//===- DeduplicateKernels.cpp - Equal kernels become one ------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Passes/Passes.h"

#include "mlir/IR/OperationSupport.h"

namespace mlir::fsdp {
#define GEN_PASS_DEF_DEDUPLICATEKERNELS
#include "fsdp/Passes/Passes.h.inc"
} // namespace mlir::fsdp

using namespace mlir;
using namespace mlir::fsdp;

/// Equal for kernels that are equal; operands are left to the comparison.
static llvm::hash_code computeHash(func::FuncOp kernel) {
  llvm::hash_code hash = hash_value(kernel.getFunctionType());
  kernel.getBody().walk([&](Operation *op) {
    hash =
        llvm::hash_combine(hash, OperationEquivalence::computeHash(
                                     op, OperationEquivalence::ignoreHashValue,
                                     OperationEquivalence::ignoreHashValue,
                                     OperationEquivalence::IgnoreLocations));
  });
  return hash;
}

static bool areEqual(func::FuncOp a, func::FuncOp b) {
  return a.getFunctionType() == b.getFunctionType() &&
         OperationEquivalence::isRegionEquivalentTo(
             &a.getBody(), &b.getBody(), OperationEquivalence::IgnoreLocations);
}

namespace {
struct DeduplicateKernels
    : fsdp::impl::DeduplicateKernelsBase<DeduplicateKernels> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    llvm::MapVector<StringAttr, SmallVector<LaunchOp>> launches;
    module.walk([&](LaunchOp op) {
      launches[op.getKernelAttr().getAttr()].push_back(op);
    });
    if (launches.empty())
      return markAllAnalysesPreserved();
    SymbolTable symbols(module);
    llvm::DenseMap<size_t, SmallVector<func::FuncOp, 2>> unique;
    for (auto &[name, ops] : launches) {
      auto kernel = symbols.lookup<func::FuncOp>(name);
      auto &bucket = unique[computeHash(kernel)];
      auto twin = llvm::find_if(
          bucket, [&](func::FuncOp other) { return areEqual(kernel, other); });
      if (twin == bucket.end()) {
        bucket.push_back(kernel);
        continue;
      }
      for (LaunchOp op : ops)
        op.setKernelAttr(FlatSymbolRefAttr::get(*twin));
      symbols.erase(kernel);
    }
  }
};
} // namespace
