//===- ReductionTarget.cpp - Flat parameters as hooks see them ------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ReductionTarget.h"
#include "PowerSGD.h"
#include "fsdp/Analysis/Contract/InputContract.h"

using namespace mlir;
using namespace mlir::fsdp;

void fsdp::addBuiltinHooks(DialectRegistry &registry) {
  addReductionHook<PowerSGD>(registry);
}

FailureOr<std::unique_ptr<ReductionHook>>
fsdp::readHook(FlatParamOp flat, StringRef text, const HookTarget &target) {
  auto *hooks = flat->getDialect()->getRegisteredInterface<ReductionHooks>();
  auto hook = hooks->read(text);
  if (!hook)
    return emitInputError(flat, llvm::toString(hook.takeError()));
  if (llvm::Error error = (*hook)->check(target))
    return emitInputError(flat, "reduction hook '")
           << text << "': " << llvm::toString(std::move(error));
  return std::move(*hook);
}

HookTarget fsdp::getHookTarget(FlatParamOp flat, MeshOp mesh) {
  HookTarget target;
  target.name = flat.getSymName().str();
  target.isWhole = mesh.getGroupSize(flat.getShardAxes()) == 1;
  target.replicas = mesh.getGroupSize(flat.getReplicateAxes());
  if (target.isWhole)
    for (MemberAttr member : flat.getMemberRange())
      target.members.push_back(
          {member.getFqn().str(),
           std::vector<int64_t>(member.getType().getShape()),
           int64_t(member.getOffset())});
  return target;
}
