//===- StepArguments.cpp - What a step takes and replaces -----------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Analysis/Step/StepArguments.h"
#include "fsdp/Analysis/Contract/InputContract.h"
#include "fsdp/Dialect/FSDP/IR/FSDP.h"

#include "mlir/Analysis/SliceAnalysis.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace mlir::fsdp;

SmallVector<std::pair<unsigned, BlockArgument>>
fsdp::getReplacedArguments(ProgramOp step) {
  llvm::DenseMap<Attribute, BlockArgument> args;
  for (BlockArgument arg : step.getArguments())
    if (FlatSymbolRefAttr state = step.getReadState(arg.getArgNumber()))
      args[state] = arg;
  SmallVector<std::pair<unsigned, BlockArgument>> replaced;
  for (unsigned i = 0, e = step.getNumResults(); i != e; ++i)
    // program_c4: it is read.
    if (FlatSymbolRefAttr state = step.getWrittenState(i))
      replaced.push_back({i, args.lookup(state)});
  return replaced;
}

bool fsdp::isView(Operation *op) {
  return isa<ViewOp, tensor::ExpandShapeOp, tensor::CollapseShapeOp>(op);
}

int64_t fsdp::getArenaOffset(Value value) {
  if (auto arg = dyn_cast<BlockArgument>(value)) {
    Operation *parent = arg.getOwner()->getParentOp();
    if (auto start = dyn_cast<StartOp>(parent))
      return getArenaOffset(start.getSource(arg));
    return cast<ProgramOp>(parent)
        .getArgAttrOfType<IntegerAttr>(arg.getArgNumber(), names::kOffset)
        .getInt();
  }
  return value.getDefiningOp()->getAttrOfType<DenseI64ArrayAttr>(
      names::kOffsets)[cast<OpResult>(value).getResultNumber()];
}

int64_t fsdp::getScratchBytes(func::FuncOp kernel) {
  CpuKernelAttr impl = kernel ? getCpuKernel(kernel) : CpuKernelAttr();
  return impl ? impl.getScratch() : 0;
}

func::FuncOp fsdp::getKernelWithMostScratch(ModuleOp module) {
  func::FuncOp most;
  for (auto kernel : module.getOps<func::FuncOp>())
    if (getScratchBytes(kernel) > getScratchBytes(most))
      most = kernel;
  return most;
}

Value fsdp::getWholeValue(Value value) {
  while (true) {
    if (auto arg = dyn_cast<BlockArgument>(value)) {
      auto start = dyn_cast<StartOp>(arg.getOwner()->getParentOp());
      if (!start)
        return value;
      value = start.getSource(arg);
    } else if (auto wait = value.getDefiningOp<WaitOp>()) {
      value = wait.getToken()
                  .getDefiningOp<StartOp>()
                  .getYielded()[cast<OpResult>(value).getResultNumber()];
    } else if (isView(value.getDefiningOp())) {
      value = value.getDefiningOp()->getOperand(0);
    } else {
      return value;
    }
  }
}

Operation *fsdp::getLossOp(ProgramOp step) {
  Operation *terminator = step.getBody().front().getTerminator();
  for (unsigned i = 0, e = step.getNumResults(); i != e; ++i) {
    if (!step.getResultAttr(i, names::kLoss))
      continue;
    Value loss = getWholeValue(terminator->getOperand(i));
    while (auto mean = loss.getDefiningOp<CollectiveOpInterface>())
      loss = getWholeValue(mean.getInput());
    return loss.getDefiningOp();
  }
  return nullptr;
}

Operation *fsdp::getForwardEnd(ProgramOp step) {
  return getTraits(step.getKind()).hasBackward ? getLossOp(step) : nullptr;
}

/// Whether both are the same value, or made alike from the same values.
static bool isSame(Value a, Value b) {
  if (a == b)
    return true;
  if (auto copy = a.getDefiningOp<ReloadOp>(),
      other = b.getDefiningOp<ReloadOp>();
      copy && other)
    return copy.getInput() == other.getInput();
  auto first = a.getDefiningOp<LaunchOp>(),
       second = b.getDefiningOp<LaunchOp>();
  return first && second && first.getKernel() == second.getKernel() &&
         llvm::equal(first.getInputs(), second.getInputs(), isSame) &&
         cast<OpResult>(a).getResultNumber() ==
             cast<OpResult>(b).getResultNumber();
}

AllGatherOp fsdp::getEarlierGather(AllGatherOp gather) {
  for (auto other : gather->getBlock()->getOps<AllGatherOp>()) {
    if (other == gather)
      return nullptr;
    if (other.getMeshAttr() == gather.getMeshAttr() &&
        other.getAxesAttr() == gather.getAxesAttr() &&
        isSame(other.getInput(), gather.getInput()))
      return other;
  }
  return nullptr;
}

std::optional<int32_t> fsdp::getGroup(Operation *op) {
  auto number = op->getAttrOfType<IntegerAttr>(names::kGroup);
  return number ? std::optional<int32_t>(number.getInt()) : std::nullopt;
}

SmallVector<TransferOpInterface> fsdp::getGroupFrom(TransferOpInterface op) {
  SmallVector<TransferOpInterface> group = {op};
  Attribute number = op->getAttr(names::kGroup);
  for (Operation *next = op->getNextNode(); number && next;
       next = next->getNextNode()) {
    auto other = dyn_cast<TransferOpInterface>(next);
    if (!other || other->getAttr(names::kGroup) != number)
      break;
    group.push_back(other);
  }
  return group;
}

bool fsdp::isReadAfter(Value value, Operation *op,
                       llvm::function_ref<bool(Operation *)> counts) {
  return llvm::any_of(value.getUsers(), [&](Operation *reader) {
    Operation *user = op->getBlock()->findAncestorOpInBlock(*reader);
    if (isView(user))
      return isReadAfter(user->getResult(0), op, counts);
    if (counts && !counts(user))
      return false;
    // A transfer reads until it is waited for.
    if (auto start = dyn_cast<StartOp>(user))
      if (WaitOp wait = start.getWait())
        user = wait;
    return op->isBeforeInBlock(user);
  });
}

bool fsdp::dependsOn(Value value, Operation *op) {
  ForwardSliceOptions options;
  options.inclusive = true;
  llvm::SetVector<Operation *> slice;
  getForwardSlice(op, &slice, options);
  Operation *maker = value.getDefiningOp();
  return maker && slice.contains(maker);
}

SmallVector<ArrayAttr> fsdp::getGroups(ModuleOp module) {
  llvm::SetVector<ArrayAttr> groups;
  module.walk(
      [&](CollectiveOpInterface op) { groups.insert(op.getAxesAttr()); });
  return groups.takeVector();
}
