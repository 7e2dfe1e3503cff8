//===- TieUpdates.cpp - The optimizer writes in place ---------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Analysis/Contract/InputContract.h"
#include "fsdp/Analysis/Kernels/ComputeOps.h"
#include "fsdp/Analysis/Kernels/KernelLoops.h"
#include "fsdp/Analysis/Step/StepArguments.h"
#include "fsdp/Analysis/Step/StepStructure.h"
#include "fsdp/Passes/Passes.h"

namespace mlir::fsdp {
#define GEN_PASS_DEF_TIEUPDATES
#include "fsdp/Passes/Passes.h.inc"
} // namespace mlir::fsdp

using namespace mlir;
using namespace mlir::fsdp;

/// Whether a work item computes nothing behind the pass over its points that
/// writes `result`. (A pass computes all that it writes before it does.)
static bool isWrittenLast(const KernelLoops &loops, OpResult result) {
  ArrayRef<KernelStage> stages = loops.getStages();
  return llvm::is_contained(loops.getItemStores(), result) ||
         (!stages.empty() && llvm::is_contained(stages.back().stores, result));
}

/// Whether `kernel` may write result `result` over input `input`: it reads the
/// input only where it writes, and not behind that.
static bool readsBeforeWrites(func::FuncOp kernel, unsigned input,
                              unsigned result) {
  Block &body = kernel.getBody().front();
  Value written = body.getTerminator()->getOperand(result);
  Value arg = body.getArgument(input);
  auto store =
      written.getDefiningOp<bufferization::MaterializeInDestinationOp>();
  auto produced = store ? dyn_cast<OpResult>(store.getSource()) : OpResult();
  auto writer = produced ? dyn_cast<linalg::GenericOp>(produced.getOwner())
                         : linalg::GenericOp();
  if (!writer || getComputeKind(writer) != ComputeKind::Elementwise)
    return false;
  for (Operation &op : body)
    if (getComputeKind(&op) == ComputeKind::Opaque &&
        !isa<bufferization::MaterializeInDestinationOp>(op))
      return false;
  // At each point, it reads the element that it writes there.
  std::string why;
  std::optional<KernelLoops> loops = KernelLoops::create(kernel, why);
  const KernelAccess *write = loops ? loops->getWrite(produced) : nullptr;
  // Processors run a sweep op by op.
  if (!write || !loops->getColumnSums().empty() ||
      !isWrittenLast(*loops, produced))
    return false;
  return llvm::all_of(arg.getUses(), [&](OpOperand &use) {
    if (!isa<linalg::GenericOp>(use.getOwner()))
      return false;
    const KernelAccess *read = loops->getRead(use);
    return !read || (read->offset == 0 && read->strides == write->strides);
  });
}

namespace {
struct TieUpdates : fsdp::impl::TieUpdatesBase<TieUpdates> {
  void runOnOperation() override {
    ProgramOp step = getOperation();
    SymbolTable symbols(step->getParentOp());
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
    // Through a view, at places of its own.
    for (auto [i, other] : llvm::enumerate(launch.getInputs()))
      if (i != index && getWholeValue(other) == arg)
        return;
    auto kernel = symbols.lookup<func::FuncOp>(launch.getKernel());
    if (kernel.isExternal() || !readsBeforeWrites(kernel, index, result))
      return;
    launch.setTiedInput(result, index);
  }
};
} // namespace
