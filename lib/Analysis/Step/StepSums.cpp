//===- StepSums.cpp - Sums over ranks of a module's programs --------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Analysis/Step/StepSums.h"

#include "fsdp/Analysis/Contract/TensorSizes.h"
#include "fsdp/Analysis/Step/StepExtraction.h"
#include "fsdp/Dialect/FSDP/IR/AttributeNames.h"
#include "fsdp/Dialect/FSDP/IR/FSDP.h"

using namespace mlir;
using namespace mlir::fsdp;
using namespace mlir::fsdp::sched;

static bool isNcclType(ModuleOp module, Type element) {
  auto rounded = module->getAttrOfType<TypeAttr>(names::kReduceDtype);
  if (isa<Float32Type, Float64Type>(element))
    return true;
  if (isa<Float16Type, BFloat16Type>(element))
    return rounded && rounded.getValue() == element;
  // NCCL has no sums of other narrow types.
  return element.isInteger(8) || element.isInteger(32) || element.isInteger(64);
}

StepSums mlir::fsdp::getStepSums(ModuleOp module) {
  StepSums sums;
  auto meshes = module.getOps<MeshOp>();
  if (meshes.empty())
    return sums;
  MeshOp mesh = *meshes.begin();
  sums.worldSize = mesh.getWorldSize();
  for (auto program : module.getOps<ProgramOp>())
    program.walk([&](CollectiveOpInterface op) {
      if (!isa<ReduceScatterOp, AllReduceOp>(*op) ||
          mesh.getGroupSize(op.getAxesAttr()) == 1)
        return;
      // What is no group is refused where the program is extracted.
      std::optional<RankGroup> group = getRankGroup(mesh, op.getAxesAttr());
      if (!group)
        return;
      StepTransfer &transfer = sums.transfers.emplace_back();
      transfer.kind = op.getKind();
      auto known = llvm::find(sums.groups, *group);
      transfer.group = known - sums.groups.begin();
      if (known == sums.groups.end())
        sums.groups.push_back(*group);
      // The larger operand is what is added up.
      auto type = cast<RankedTensorType>(op.getInput().getType());
      transfer.atomBytes.push_back(getTensorBytes(type));
      llvm::raw_string_ostream(transfer.dtypes.emplace_back())
          << type.getElementType();
      sums.areNcclTypes &= isNcclType(module, type.getElementType());
    });
  return sums;
}
