//===- AssignUnits.cpp - Which parameters are gathered together -----------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Analysis/Step/WrapPolicy.h"
#include "fsdp/Passes/Passes.h"

#include "mlir/IR/Remarks.h"
#include "llvm/ADT/MapVector.h"

namespace mlir::fsdp {
#define GEN_PASS_DEF_ASSIGNUNITS
#include "fsdp/Passes/Passes.h.inc"
} // namespace mlir::fsdp

using namespace mlir;
using namespace mlir::fsdp;

/// A remark for each unit: what is gathered together.
static void report(TracedStep &step, ArrayRef<std::string> units,
                   StringRef wrap) {
  struct Unit {
    int64_t parameters = 0, elements = 0;
  };
  llvm::MapVector<StringRef, Unit> sizes;
  for (auto [param, name] : llvm::zip(step.params, units)) {
    Unit &unit = sizes[name];
    ++unit.parameters;
    unit.elements += param.getType().getNumElements();
  }
  for (const auto &[name, unit] : sizes)
    remark::passed(
        step.func.getLoc(),
        remark::RemarkOpts::name("Unit").category("fsdp-assign-units"))
        << (Twine(name.empty() ? "root" : name) + " is a unit of " +
            Twine(unit.parameters) + " parameters, " + Twine(unit.elements) +
            " elements, by wrap=" + wrap)
               .str();
}

namespace {
struct AssignUnits : fsdp::impl::AssignUnitsBase<AssignUnits> {
  using AssignUnitsBase::AssignUnitsBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    if (!module.lookupSymbol<func::FuncOp>(names::kForwardBackward))
      return markAllAnalysesPreserved();
    FailureOr<TracedStep> step = readTracedStep(module);
    if (failed(step))
      return signalPassFailure();

    auto fail = [&](llvm::Error error) {
      emitInputError(step->func, llvm::toString(std::move(error)));
      signalPassFailure();
    };
    auto policy = WrapPolicy::parse(wrap);
    if (!policy)
      return fail(policy.takeError());
    auto units =
        assignUnits(step->modules, getWrapParams(step->params), *policy);
    if (!units)
      return fail(units.takeError());

    for (auto [param, unit] : llvm::zip(step->params, *units))
      step->func.setArgAttr(param.arg.getArgNumber(), names::kUnit,
                            StringAttr::get(&getContext(), unit));
    module->setAttr(names::kWrap, StringAttr::get(&getContext(), wrap));
    report(*step, *units, wrap);
  }
};
} // namespace
