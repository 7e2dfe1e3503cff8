//===- ReserveMemory.cpp - What a rank's arena may take -------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Analysis/Contract/InputContract.h"
#include "fsdp/Analysis/Step/StepBudget.h"
#include "fsdp/Cost/ClusterFile.h"
#include "fsdp/Passes/Passes.h"

namespace mlir::fsdp {
#define GEN_PASS_DEF_RESERVEMEMORY
#include "fsdp/Passes/Passes.h.inc"
} // namespace mlir::fsdp

using namespace mlir;
using namespace mlir::fsdp;

namespace {
struct ReserveMemory : fsdp::impl::ReserveMemoryBase<ReserveMemory> {
  using ReserveMemoryBase::ReserveMemoryBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    if (module.getOps<ProgramOp>().empty())
      return markAllAnalysesPreserved();
    auto refuse = [&](const Twine &message) {
      emitInputError(module, message);
      signalPassFailure();
    };
    if (memoryBudget < 0)
      return refuse("expected a memory budget of at least 0 bytes (0: what the "
                    "device has), got " +
                    Twine(int64_t(memoryBudget)));
    if (cluster.empty())
      return refuse("expected the option cluster to name a cluster file, got "
                    "none");
    auto description = loadCluster(cluster);
    if (!description)
      return refuse(llvm::toString(description.takeError()));
    module->setAttr(names::kBudget,
                    getBudget(module, *description, memoryBudget));
  }
};
} // namespace
