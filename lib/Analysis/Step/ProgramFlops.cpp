//===- ProgramFlops.cpp - Arithmetic of a program -------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Analysis/Step/ProgramFlops.h"
#include "fsdp/Analysis/Step/KernelCosts.h"

#include "llvm/ADT/StringMap.h"

using namespace mlir;
using namespace mlir::fsdp;

std::optional<ModelFlops> fsdp::countFlops(ProgramOp program) {
  SymbolTable symbols(program->getParentOfType<ModuleOp>());
  llvm::StringMap<KernelCost> costs;
  ModelFlops flops = {};
  for (auto launch : program.getOps<LaunchOp>()) {
    auto [cost, isNew] = costs.try_emplace(launch.getKernel());
    if (isNew) {
      auto kernel = symbols.lookup<func::FuncOp>(launch.getKernel());
      if (!kernel || kernel.isDeclaration())
        return std::nullopt;
      cost->second = getKernelCost(kernel);
    }
    addModelFlops(cost->second, flops);
  }
  return flops;
}

FlopsAttr fsdp::getFlopsAttr(MLIRContext *context, const ModelFlops &flops) {
  auto of = [&](CostDtype dtype) { return flops[unsigned(dtype)]; };
  return FlopsAttr::get(context, of(CostDtype::F64), of(CostDtype::F32),
                        of(CostDtype::BF16), of(CostDtype::F16),
                        of(CostDtype::F8));
}

ModelFlops fsdp::getModelFlops(FlopsAttr attr) {
  ModelFlops flops = {};
  flops[unsigned(CostDtype::F64)] = attr.getF64();
  flops[unsigned(CostDtype::F32)] = attr.getF32();
  flops[unsigned(CostDtype::BF16)] = attr.getBf16();
  flops[unsigned(CostDtype::F16)] = attr.getF16();
  flops[unsigned(CostDtype::F8)] = attr.getF8();
  return flops;
}

int64_t fsdp::getTotalFlops(FlopsAttr attr) {
  return getTotal(getModelFlops(attr));
}
