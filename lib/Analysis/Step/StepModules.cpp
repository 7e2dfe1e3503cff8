//===- StepModules.cpp - Which module an op works for ---------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "StepModules.h"
#include "fsdp/Analysis/Contract/InputContract.h"
#include "fsdp/Analysis/Step/StepArguments.h"

#include "llvm/ADT/SmallPtrSet.h"

using namespace mlir;
using namespace mlir::fsdp;

/// Of the parameter that covers @element of @flat: "layers.0.mlp.weight" is of
/// "layers.0.mlp".
static std::string getModuleAt(FlatParamOp flat, int64_t element) {
  // In the order of their offsets.
  ArrayRef<Attribute> members = flat.getMembers().getValue();
  auto behind = llvm::partition_point(members, [&](Attribute member) {
    return cast<MemberAttr>(member).getOffset() <= element;
  });
  if (behind == members.begin())
    return "";
  auto covering = cast<MemberAttr>(behind[-1]);
  auto [module, parameter] = covering.getFqn().getValue().rsplit('.');
  return parameter.empty() ? "" : module.str();
}

/// Where @value begins in what it is a view of, in elements.
static int64_t getFirstElement(Value value) {
  int64_t element = 0;
  for (Operation *op = value.getDefiningOp(); op && isView(op);
       op = op->getOperand(0).getDefiningOp())
    if (auto view = dyn_cast<ViewOp>(op))
      element += view.getOffset();
  return element;
}

using Names = llvm::DenseMap<Operation *, std::string>;

static void nameLaunches(ProgramOp step,
                         llvm::function_ref<FlatParamOp(Operation *)> getUnit,
                         Names &names) {
  auto name = [&](LaunchOp launch, std::string module) {
    if (launch && !module.empty())
      names.try_emplace(launch, std::move(module));
  };
  // What locations say goes first, then what is read.
  step.walk([&](LaunchOp launch) {
    if (auto path = launch.getLoc()->findInstanceOf<NameLoc>())
      name(launch, path.getName().str());
    for (Value operand : launch.getInputs())
      if (names.contains(launch))
        break;
      else if (auto gather =
                   getWholeValue(operand).getDefiningOp<AllGatherOp>())
        if (FlatParamOp flat = getUnit(gather))
          name(launch, getModuleAt(flat, getFirstElement(operand)));
  });
  auto nameGradient = [&](Value gradient, FlatParamOp flat, int64_t element) {
    name(getWholeValue(gradient).getDefiningOp<LaunchOp>(),
         getModuleAt(flat, element));
  };
  step.walk([&](Operation *op) {
    FlatParamOp flat =
        isa<PackOp>(op) || isReduction(op) ? getUnit(op) : nullptr;
    if (!flat)
      return;
    if (auto pack = dyn_cast<PackOp>(op))
      for (auto [part, offset] : llvm::zip(pack.getParts(), pack.getOffsets()))
        nameGradient(part, flat, offset);
    else
      nameGradient(op->getOperand(0), flat, 0);
  });
}

/// From @result, which is returned, back to the sums that it is made of:
/// kernels of single numbers stand between.
static void nameSums(Value result, StringRef what, Names &names) {
  SmallVector<Value> work = {result};
  llvm::SmallPtrSet<Operation *, 8> seen;
  while (!work.empty()) {
    Operation *op = getWholeValue(work.pop_back_val()).getDefiningOp();
    if (!op || !seen.insert(op).second)
      continue;
    if (isa<AllReduceOp>(op))
      names.try_emplace(op, what.str());
    if (isa<AllReduceOp, LaunchOp>(op))
      for (Value operand : op->getOperands())
        if (auto type = dyn_cast<RankedTensorType>(operand.getType());
            type && type.getNumElements() == 1)
          work.push_back(operand);
  }
}

Names fsdp::getModules(ProgramOp step,
                       llvm::function_ref<FlatParamOp(Operation *)> getUnit) {
  Names modules;
  nameLaunches(step, getUnit, modules);
  Operation *terminator = step.getBody().front().getTerminator();
  for (unsigned i = 0, e = step.getNumResults(); i != e; ++i) {
    if (step.getResultAttr(i, names::kLoss))
      nameSums(terminator->getOperand(i), "loss", modules);
    if (step.getResultAttr(i, names::kLossCount))
      nameSums(terminator->getOperand(i), "loss count", modules);
    if (step.getResultAttr(i, names::kGradNorm))
      nameSums(terminator->getOperand(i), "gradient norm", modules);
  }
  return modules;
}
