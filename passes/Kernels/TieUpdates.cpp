//===- TieUpdates.cpp - The optimizer writes in place ---------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Analysis/InputContract.h"
#include "fsdp/Analysis/KernelTies.h"
#include "fsdp/Analysis/StepArguments.h"
#include "fsdp/Analysis/StepStructure.h"
#include "fsdp/Passes/Passes.h"

namespace mlir::fsdp {
#define GEN_PASS_DEF_TIEUPDATES
#include "fsdp/Passes/Passes.h.inc"
} // namespace mlir::fsdp

using namespace mlir;
using namespace mlir::fsdp;

namespace {
struct TieUpdates : fsdp::impl::TieUpdatesBase<TieUpdates> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    func::FuncOp step = getStep(module);
    if (!step)
      return markAllAnalysesPreserved();
    SymbolTable symbols(module);
    Operation *ret = step.getBody().front().getTerminator();
    for (auto [result, arg] : getReplacedArguments(step)) {
      auto value = dyn_cast<OpResult>(ret->getOperand(result));
      auto launch = value ? dyn_cast<LaunchOp>(value.getOwner()) : LaunchOp();
      if (launch)
        tie(launch, value.getResultNumber(), arg, symbols);
    }
  }

private:
  void tie(LaunchOp launch, unsigned result, BlockArgument arg,
           SymbolTable &symbols) {
    auto input = llvm::find(launch.getInputs(), Value(arg));
    if (input == launch.getInputs().end())
      return;
    unsigned index = input - launch.getInputs().begin();
    if (isReadAfter(arg, launch))
      return;
    auto kernel = symbols.lookup<func::FuncOp>(launch.getKernel());
    if (kernel.isExternal() || !mayWriteOver(kernel, index, result))
      return;
    SmallVector<int64_t> tied(launch.getNumResults(), -1);
    if (launch.getTied())
      tied.assign(launch.getTied()->begin(), launch.getTied()->end());
    tied[result] = index;
    launch.setTied(tied);
  }
};
} // namespace
