//===- MarkCheckpoints.cpp - Launches of checkpointed modules -------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Analysis/Contract/InputContract.h"
#include "fsdp/Analysis/Step/CheckpointRule.h"
#include "fsdp/Analysis/Step/KernelCosts.h"
#include "fsdp/Analysis/Step/ProductTypes.h"
#include "fsdp/Analysis/Step/StepArguments.h"
#include "fsdp/Passes/Passes.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringSet.h"

namespace mlir::fsdp {
#define GEN_PASS_DEF_MARKCHECKPOINTS
#include "fsdp/Passes/Passes.h.inc"
} // namespace mlir::fsdp

using namespace mlir;
using namespace mlir::fsdp;

//===----------------------------------------------------------------------===//
// Analysis
//===----------------------------------------------------------------------===//

/// What the trace said of the model's modules.
static SmallVector<ModuleInfo> getModules(ModuleOp module) {
  SmallVector<ModuleInfo> modules;
  auto list = module->getAttrOfType<ArrayAttr>(names::kModules);
  if (!list)
    return modules;
  for (auto entry : list.getAsRange<DictionaryAttr>()) {
    auto checkpoint = entry.getAs<BoolAttr>("checkpoint");
    modules.push_back({entry.getAs<StringAttr>("fqn").getValue(),
                       entry.getAs<StringAttr>("class").getValue(),
                       checkpoint && checkpoint.getValue()});
  }
  return modules;
}

static std::vector<WrapParam> getParams(ModuleOp module) {
  std::vector<WrapParam> params;
  for (auto flat : module.getOps<FlatParamOp>())
    for (MemberAttr member : flat.getMemberRange())
      params.push_back(getWrapParam(member.getFqn(), member.getTied(),
                                    member.getNumElements()));
  return params;
}

static SmallVector<LaunchOp> getForwardLaunches(ProgramOp program) {
  SmallVector<LaunchOp> launches;
  Operation *end = getForwardEnd(program);
  for (auto launch : program.getOps<LaunchOp>())
    if (end && (launch == end || launch->isBeforeInBlock(end)))
      launches.push_back(launch);
  return launches;
}

//===----------------------------------------------------------------------===//
// Decision
//===----------------------------------------------------------------------===//

/// The one of @modules that @path is of or below: they are not inside of each
/// other. Null where there is none.
static const std::string *findAround(StringRef path,
                                     ArrayRef<std::string> modules) {
  for (const std::string &module : modules) {
    StringRef rest = path;
    if (module.empty() ||
        (rest.consume_front(module) && (rest.empty() || rest.front() == '.')))
      return &module;
  }
  return nullptr;
}

/// The one of @modules that all of a kernel works for, by its @paths.
static const std::string *findAroundAll(ArrayRef<StringRef> paths,
                                        ArrayRef<std::string> modules) {
  if (paths.empty())
    return nullptr;
  const std::string *around = findAround(paths.front(), modules);
  for (StringRef path : paths.drop_front())
    if (findAround(path, modules) != around)
      return nullptr;
  return around;
}

/// Whether torchtitan's selective checkpointing keeps what a kernel of @cost
/// makes, the @product-th product of two matrices of its block, from 1 on.
static bool isSaved(const KernelCost &cost, int64_t product) {
  switch (cost.kind) {
  case KernelKind::Attention:
  case KernelKind::AttentionBackward:
    return true;
  case KernelKind::Matmul:
    return cost.batch > 1 || product % 2 == 1;
  case KernelKind::Vector:
  case KernelKind::Copy:
    return false;
  }
  llvm_unreachable("unknown kind of kernel");
}

using Marks = llvm::MapVector<LaunchOp, CheckpointAttr>;

/// By launch the mark that it gets. @getCost: of its kernel; empty where no
/// results are saved.
static Marks
findMarks(ArrayRef<LaunchOp> launches, ArrayRef<std::string> modules,
          llvm::function_ref<const KernelCost *(LaunchOp)> getCost) {
  Marks marks;
  llvm::StringMap<int64_t> products;
  for (LaunchOp launch : launches) {
    const std::string *module =
        findAroundAll(getModulePaths(launch.getLoc()), modules);
    if (!module)
      continue;
    const KernelCost *cost = getCost(launch);
    int64_t &product = products[*module];
    if (cost && cost->kind == KernelKind::Matmul && cost->batch <= 1)
      ++product;
    marks[launch] = CheckpointAttr::get(
        launch.getContext(), StringAttr::get(launch.getContext(), *module),
        cost && isSaved(*cost, product));
  }
  return marks;
}

//===----------------------------------------------------------------------===//
// Pass
//===----------------------------------------------------------------------===//

namespace {
struct MarkCheckpoints : fsdp::impl::MarkCheckpointsBase<MarkCheckpoints> {
  using MarkCheckpointsBase::MarkCheckpointsBase;

  llvm::Error run(ProgramOp program) {
    auto parsed = CheckpointRule::parse(rule);
    if (!parsed)
      return parsed.takeError();
    auto module = program->getParentOfType<ModuleOp>();
    auto modules =
        findCheckpointed(getModules(module), getParams(module), *parsed);
    if (!modules)
      return modules.takeError();
    if (modules->empty())
      return llvm::Error::success();
    SmallVector<LaunchOp> launches = getForwardLaunches(program);
    if (!launches.empty() && llvm::all_of(launches, [](LaunchOp launch) {
          return getModulePaths(launch.getLoc()).empty();
        }))
      return llvm::createStringError(
          "expected locations that name the modules to checkpoint "
          "(docs/input-contract.md), got none: fsdp-export writes them without "
          "--no-locations, MLIR's tools with --mlir-print-debuginfo");

    llvm::StringMap<KernelCost> costs;
    auto getCost = [&](LaunchOp launch) -> const KernelCost * {
      if (!parsed->isSelective())
        return nullptr;
      auto [cost, isNew] = costs.try_emplace(launch.getKernel());
      if (isNew)
        if (auto kernel = module.lookupSymbol<func::FuncOp>(launch.getKernel()))
          cost->second = getKernelCost(kernel);
      return &cost->second;
    };
    Marks marks = findMarks(launches, *modules, getCost);
    if (marks.empty())
      return llvm::createStringError(
          "expected modules to checkpoint that compute something, got " +
          llvm::join(*modules, ", "));
    for (auto [launch, mark] : marks)
      launch->setAttr(names::kCheckpoint, mark);
    return llvm::Error::success();
  }

  void runOnOperation() override {
    ProgramOp program = getOperation();
    if (!getTraits(program.getKind()).hasBackward)
      return markAllAnalysesPreserved();
    if (llvm::Error error = run(program)) {
      emitInputError(program, llvm::toString(std::move(error)));
      signalPassFailure();
    }
  }
};
} // namespace
