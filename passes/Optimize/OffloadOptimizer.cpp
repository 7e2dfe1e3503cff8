//===- OffloadOptimizer.cpp - Optimizer states in the host's memory -------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "HostStates.h"
#include "fsdp/Passes/Passes.h"

namespace mlir::fsdp {
#define GEN_PASS_DEF_OFFLOADOPTIMIZER
#include "fsdp/Passes/Passes.h.inc"
} // namespace mlir::fsdp

using namespace mlir;
using namespace mlir::fsdp;

/// Those of a flat parameter. What all flat parameters share is a number that
/// is read more often than it is large.
static SmallVector<StateOp> getOffloaded(ModuleOp module, bool isUsual) {
  return llvm::filter_to_vector(module.getOps<StateOp>(), [&](StateOp state) {
    return state.getKind() == StateKind::optimizer &&
           state.getFlatParamAttr() &&
           isOffloaded(state, HostPart::optimizer, isUsual);
  });
}

/// The first flat parameter whose optimizer states are to be on the host; null
/// where there is none.
static FlatParamOp getFirstMarked(ModuleOp module) {
  for (auto flat : module.getOps<FlatParamOp>())
    if (std::optional<HostPart> part = flat.getOffload();
        part && flat.getTrainable() &&
        (*part == HostPart::optimizer || *part == HostPart::all))
      return flat;
  return {};
}

/// Updates alone read them.
static SmallVector<Readers> chooseOneCopy(ProgramOp, BlockArgument,
                                          Readers all) {
  return {std::move(all)};
}

namespace {
struct OffloadOptimizer : fsdp::impl::OffloadOptimizerBase<OffloadOptimizer> {
  using OffloadOptimizerBase::OffloadOptimizerBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    SmallVector<StateOp> states = getOffloaded(module, all);
    FlatParamOp marked = getFirstMarked(module);
    // offload_optimizer_c1
    if (states.empty() && (all || marked)) {
      InFlightDiagnostic diag = module.emitError(
          "expected an optimizer with a state for each element of "
          "a parameter, to be in the host's memory, got none");
      if (marked)
        diag.attachNote(marked.getLoc()) << "a unit that asks for it is here";
      return signalPassFailure();
    }
    bool isChanged = false;
    if (failed(moveToHost(module, states, chooseOneCopy, isChanged)))
      return signalPassFailure();
    if (!isChanged)
      markAllAnalysesPreserved();
  }
};
} // namespace
