//===- ChooseReduction.cpp - Who adds up over ranks -----------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Analysis/Contract/InputContract.h"
#include "fsdp/Analysis/Step/StepSums.h"
#include "fsdp/Cost/ClusterFile.h"
#include "fsdp/Passes/Passes.h"
#include "fsdp/Schedule/ReductionChoice.h"

#include "mlir/IR/Remarks.h"
#include "llvm/Support/FormatVariadic.h"

namespace mlir::fsdp {
#define GEN_PASS_DEF_CHOOSEREDUCTION
#include "fsdp/Passes/Passes.h.inc"
} // namespace mlir::fsdp

using namespace mlir;
using namespace mlir::fsdp;

namespace {
struct ChooseReduction : fsdp::impl::ChooseReductionBase<ChooseReduction> {
  using ChooseReductionBase::ChooseReductionBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    bool hasCode =
        llvm::any_of(module.getOps<func::FuncOp>(), [](func::FuncOp kernel) {
          return bool(getImplementation(kernel, kCudaTarget));
        });
    if (!hasCode) {
      if (reduction == ReductionMode::Auto)
        return markAllAnalysesPreserved();
      emitInputError(module, "expected code for CUDA devices (--target cuda) "
                             "beside --reduction ")
          << (reduction == ReductionMode::Nccl ? "nccl" : "exact")
          << ", got none";
      return signalPassFailure();
    }
    std::optional<Cluster> description;
    if (!cluster.empty()) {
      auto loaded = loadCluster(cluster);
      if (!loaded) {
        emitInputError(module, llvm::toString(loaded.takeError()));
        return signalPassFailure();
      }
      description = std::move(*loaded);
    }
    auto adder = choose(module, description);
    if (!adder) {
      emitInputError(module, llvm::toString(adder.takeError()));
      return signalPassFailure();
    }
    module->setAttr(
        names::kReduction,
        ReductionAttr::get(&getContext(), *adder,
                           description ? description->gpusPerNode : 0));
  }

  llvm::Expected<Adder> choose(ModuleOp module,
                               const std::optional<Cluster> &description) {
    StepSums sums = getStepSums(module);
    if (reduction == ReductionMode::Nccl) {
      if (!sums.areNcclTypes)
        return llvm::createStringError(
            "expected sums over ranks of f32, f64 or integers beside "
            "--reduction nccl, which rounds each partial sum, got some of a "
            "narrower type: --reduce-dtype f32 widens them, the type itself "
            "there says that this is meant");
      return Adder::nccl;
    }
    if (reduction == ReductionMode::Exact || !description || !sums.areNcclTypes)
      return Adder::exact;
    auto times = sched::getReductionTimes(*description, sums.worldSize,
                                          sums.transfers, sums.groups);
    if (!times)
      return times.takeError();
    Adder chosen = sched::isExactFast(*times) ? Adder::exact : Adder::nccl;
    remark::passed(
        module.getLoc(),
        remark::RemarkOpts::name("Reduction").category("fsdp-choose-reduction"))
        << llvm::formatv("{0}: sums over ranks, each alone, take {1:f1} us in "
                         "the runtime's order and {2:f1} us in NCCL's",
                         stringifyAdder(chosen), toSeconds(times->exact) * 1e6,
                         toSeconds(times->nccl) * 1e6)
               .str();
    return chosen;
  }
};
} // namespace
