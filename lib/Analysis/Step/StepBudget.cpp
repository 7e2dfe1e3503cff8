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

#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringExtras.h"
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

/// ", with what the rule of 2 checkpointed modules (h.0, h.1) keeps"; empty
/// where there is no such rule.
static std::string describeCheckpoints(ProgramOp program) {
  llvm::SetVector<StringRef> modules;
  for (auto launch : program.getOps<LaunchOp>())
    if (auto mark = launch->getAttrOfType<CheckpointAttr>(names::kCheckpoint))
      modules.insert(mark.getModule().getValue());
  if (modules.empty())
    return "";
  constexpr size_t kShown = 2;
  ArrayRef<StringRef> shown = modules.getArrayRef().take_front(kShown);
  return llvm::formatv(
      ", with what the rule of {0} checkpointed {1} ({2}{3}) keeps",
      modules.size(), modules.size() == 1 ? "module" : "modules",
      llvm::join(shown, ", "), modules.size() > kShown ? ", .." : "");
}

std::string mlir::fsdp::describeMisfit(ProgramOp program, int64_t needed,
                                       const Cluster &cluster,
                                       StringRef clusterFile) {
  auto module = program->getParentOfType<ModuleOp>();
  BudgetAttr budget = lookupBudget(module);
  bool isStep = getTraits(program.getKind()).isStep;
  return llvm::formatv("expected a memory budget of at least {0} bytes ({1} "
                       "for the arena{2}{3}, "
                       "{4} for {5}), got {6}",
                       needed + budget.getReserved(), formatBytes(needed),
                       isStep ? "" : (" of " + program.getSymName()).str(),
                       describeCheckpoints(program),
                       formatBytes(budget.getReserved()),
                       describeReserved(module, budget, cluster, clusterFile),
                       budget.getMemory());
}
