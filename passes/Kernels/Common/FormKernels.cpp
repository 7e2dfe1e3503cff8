//===- FormKernels.cpp - Which ops become one kernel ----------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Analysis/Contract/InputContract.h"
#include "fsdp/Analysis/Kernels/KernelFormation.h"
#include "fsdp/Analysis/Step/StepStructure.h"
#include "fsdp/Passes/Passes.h"

namespace mlir::fsdp {
#define GEN_PASS_DEF_FORMKERNELS
#include "fsdp/Passes/Passes.h.inc"
} // namespace mlir::fsdp

using namespace mlir;
using namespace mlir::fsdp;

namespace {
struct FormKernels : fsdp::impl::FormKernelsBase<FormKernels> {
  using FormKernelsBase::FormKernelsBase;
  void runOnOperation() override {
    ProgramOp step = getOperation();
    StepGraph graph(step);
    // Updates of ignored parameters are part of backward, all others wait for
    // reductions: neither may wait for the other.
    FusionLimits limits(minItems, smallWork);
    limits.sweeps = sweeps;
    limits.scalarsApart = llvm::any_of(
        step->getParentOfType<ModuleOp>().getOps<FlatParamOp>(),
        [](FlatParamOp p) { return p.getTrainable() && p.isRankOwn(); });
    std::vector<int> kernels = formKernels(graph, limits);

    Builder builder(&getContext());
    for (auto [node, kernel] : llvm::zip(graph.getNodes(), kernels)) {
      if (kernel < 0)
        continue;
      auto number = builder.getI64IntegerAttr(kernel);
      node.op->setAttr(names::kKernel, number);
      if (node.contraction)
        for (Operation *absorbed : node.contraction->absorbed)
          absorbed->setAttr(names::kKernel, number);
    }
  }
};
} // namespace
