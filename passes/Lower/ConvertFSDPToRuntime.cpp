//===- ConvertFSDPToRuntime.cpp - The step becomes runtime calls ----------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Programs become functions that call the runtime (StepLowering.h), beside one
// symbol that names them all (ArtifactEntry.h). A program's certificate is the
// hash of what is extracted of it, its kernels' code included.
//
//===----------------------------------------------------------------------===//

#include "ArtifactEntry.h"
#include "StepLowering.h"
#include "fsdp/Analysis/Contract/InputContract.h"
#include "fsdp/Analysis/Step/GuardPlan.h"
#include "fsdp/Analysis/Step/KernelCode.h"
#include "fsdp/Analysis/Step/PlacedStep.h"
#include "fsdp/Analysis/Step/StepExtraction.h"
#include "fsdp/Analysis/Step/StepStructure.h"
#include "fsdp/Passes/Manifest.h"
#include "fsdp/Passes/Passes.h"
#include "fsdp/Schedule/ProgramHash.h"

#include "llvm/Support/JSON.h"

namespace mlir::fsdp {
#define GEN_PASS_DEF_CONVERTFSDPTORUNTIME
#include "fsdp/Passes/Passes.h.inc"
} // namespace mlir::fsdp

using namespace mlir;
using namespace mlir::fsdp;

/// Whether @manifest, which may have been written for another module, certifies
/// the program of that name.
static FailureOr<llvm::StringSet<>> getCertified(ModuleOp module,
                                                 StringRef manifest) {
  llvm::Expected<llvm::json::Value> json = llvm::json::parse(manifest);
  if (!json)
    return module.emitError("expected the manifest to be JSON, got ")
           << llvm::toString(json.takeError());
  llvm::StringSet<> certified;
  const llvm::json::Object *object = json->getAsObject();
  const llvm::json::Array *programs =
      object ? object->getArray("programs") : nullptr;
  if (!programs)
    return certified;
  for (const llvm::json::Value &value : *programs)
    if (const llvm::json::Object *program = value.getAsObject())
      if (auto name = program->getString("name");
          name && program->get("certificate"))
        certified.insert(*name);
  return certified;
}

namespace {
struct ConvertFSDPToRuntime
    : mlir::fsdp::impl::ConvertFSDPToRuntimeBase<ConvertFSDPToRuntime> {
  using ConvertFSDPToRuntimeBase::ConvertFSDPToRuntimeBase;

  bool writesManifest() const { return !cpu.empty() || !cuda.empty(); }

  /// Kinds of the manifest's targets, in its order; cpu where it has none.
  std::vector<std::string> getTargets() {
    std::vector<std::string> kinds;
    llvm::Expected<llvm::json::Value> json = llvm::json::parse(manifest);
    if (!json)
      llvm::consumeError(json.takeError());
    else if (auto *object = json->getAsObject())
      if (auto *targets = object->getArray("targets"))
        for (const llvm::json::Value &target : *targets)
          if (auto *entry = target.getAsObject())
            kinds.push_back(entry->getString("kind").value_or("").str());
    if (kinds.empty())
      kinds.push_back(kCpuTarget.str());
    return kinds;
  }

  /// The programs' certificates. Writes the manifest with them, where a
  /// processor is named: kernels' code is hashed once for both.
  LogicalResult certify(ModuleOp module, ArrayRef<ProgramOp> programs,
                        MutableArrayRef<LoweredProgram> lowered) {
    bool writesManifest = this->writesManifest();
    llvm::StringSet<> certified;
    if (!writesManifest) {
      FailureOr<llvm::StringSet<>> names = getCertified(module, manifest);
      if (failed(names))
        return failure();
      certified = std::move(*names);
      if (certified.empty())
        return success();
    }
    // Hashing it takes as long as printing.
    std::string kernelCode = getKernelCode(module);
    std::vector<sched::StepProgram> extracted;
    for (auto [program, result] : llvm::zip_equal(programs, lowered)) {
      if (!writesManifest &&
          !certified.contains(ProgramOp(program).getSymName()))
        continue;
      auto &step = getChildAnalysis<ExtractedStep>(program);
      if (failed(step.program))
        return failure();
      extracted.push_back(*step.program);
      extracted.back().kernelCode = kernelCode;
      result.certificate = sched::getProgramHash(extracted.back());
    }
    if (writesManifest) {
      ManifestOptions options;
      if (!cpu.empty())
        options.targets.push_back({kCpuTarget.str(), cpu, {}});
      if (!cpu.empty())
        llvm::append_range(options.targets.back().features, features);
      if (!cuda.empty())
        options.targets.push_back(
            {kCudaTarget.str(), cuda, {kPtxFeature.str()}});
      manifest = createManifest(module, extracted, options);
    }
    return success();
  }

  LogicalResult checkOptions(ModuleOp module) {
    if (writesManifest() && !manifest.empty())
      return emitInputError(
          module, "expected either manifest or cpu and cuda, got both");
    if (cpu.empty() && !features.empty())
      return emitInputError(module, "expected cpu beside features, got none");
    return success();
  }

  LogicalResult lower(ProgramOp program, DescriptorBuilder &descriptors,
                      KernelImplementations &implementations) {
    std::optional<GuardPlan> guards;
    if (program.getArenaAttr().getBorder()) {
      auto &step = getChildAnalysis<ExtractedStep>(program);
      if (failed(step.program))
        return failure();
      guards = planGuards(program, *step.program, step.origins);
    }
    return lowerStep(program, guards ? &*guards : nullptr, descriptors,
                     implementations);
  }

  void runOnOperation() override {
    ModuleOp module = getOperation();
    auto programs = llvm::to_vector(module.getOps<ProgramOp>());
    if (programs.empty())
      return markAllAnalysesPreserved();
    if (failed(checkOptions(module)))
      return signalPassFailure();
    if (!writesManifest() && manifest.empty())
      manifest = "{}";
    SmallVector<LoweredProgram> lowered;
    for (ProgramOp program : programs) {
      // Places are read below without another question.
      if (failed(expectAppliedPlan(program)) ||
          failed(checkPlacedStep(program)))
        return signalPassFailure();
      lowered.push_back(
          {program.getSymNameAttr(), getRunName(program), std::string()});
    }
    if (failed(certify(module, programs, lowered)))
      return signalPassFailure();
    DescriptorBuilder descriptors(module);
    std::vector<std::string> kinds = getTargets();
    KernelImplementations implementations(module, descriptors, kinds);
    for (ProgramOp program : programs)
      if (failed(lower(program, descriptors, implementations)))
        return signalPassFailure();
    createEntry(module, manifest, lowered, descriptors);
    // Kernels as tensor functions, and everything symbolic, have served.
    SmallVector<Operation *> dead;
    for (Operation &op : *module.getBody()) {
      auto func = dyn_cast<func::FuncOp>(op);
      if (isa<FSDPDialect>(op.getDialect()) ||
          (func &&
           (func->hasAttr(names::kImpl) || func->hasAttr(names::kMatmul))))
        dead.push_back(&op);
    }
    for (Operation *op : dead)
      op->erase();
    for (NamedAttribute attr : llvm::to_vector(module->getDiscardableAttrs()))
      if (attr.getName().strref().starts_with("fsdp."))
        module->removeDiscardableAttr(attr.getName());
  }
};
} // namespace
