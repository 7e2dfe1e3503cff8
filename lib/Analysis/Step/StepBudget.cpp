//===- StepBudget.cpp - What the arenas of programs may take --------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Analysis/Step/StepBudget.h"
#include "fsdp-rt/memory.h"
#include "fsdp/Analysis/Contract/InputContract.h"
#include "fsdp/Analysis/Step/StepArguments.h"
#include "fsdp/Cost/FormatBytes.h"

#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace mlir::fsdp;

int64_t mlir::fsdp::getThreadBytes(ModuleOp module) {
  return ::fsdp::rt::getThreadBytes(
      getScratchBytes(getKernelWithMostScratch(module)));
}

BudgetAttr mlir::fsdp::getBudget(ModuleOp module, const Cluster &cluster,
                                 int64_t memory) {
  int64_t given = cluster.device.reservedBytes;
  if (!memory)
    memory = cluster.device.getUsableBytes() + given;
  return BudgetAttr::get(module.getContext(), memory,
                         std::max(given, getThreadBytes(module)));
}

static BudgetAttr lookupBudget(ModuleOp module) {
  return module->getAttrOfType<BudgetAttr>(names::kBudget);
}

std::optional<int64_t> mlir::fsdp::getArenaBudget(ModuleOp module) {
  if (BudgetAttr budget = lookupBudget(module))
    return budget.getArenaBytes();
  return std::nullopt;
}

/// Who takes what is reserved.
static std::string describeReserved(ModuleOp module, BudgetAttr budget,
                                    const Cluster &cluster,
                                    StringRef clusterFile) {
  if (budget.getReserved() <= cluster.device.reservedBytes)
    return ("driver and libraries, reserved_gib in " + clusterFile).str();
  func::FuncOp kernel = getKernelWithMostScratch(module);
  std::string where =
      kernel ? ("@" + kernel.getSymName() + " and of ").str() : "";
  return "scratch memory of " + where + "products";
}

std::string mlir::fsdp::describeMisfit(ProgramOp program, int64_t needed,
                                       const Cluster &cluster,
                                       StringRef clusterFile) {
  auto module = program->getParentOfType<ModuleOp>();
  BudgetAttr budget = lookupBudget(module);
  bool isStep = getTraits(program.getKind()).isStep;
  return llvm::formatv(
      "expected a memory budget of at least {0} bytes ({1} for the arena{2}, "
      "{3} for {4}), got {5}",
      needed + budget.getReserved(), formatBytes(needed),
      isStep ? "" : (" of " + program.getSymName()).str(),
      formatBytes(budget.getReserved()),
      describeReserved(module, budget, cluster, clusterFile),
      budget.getMemory());
}
