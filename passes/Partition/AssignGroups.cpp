//===- AssignGroups.cpp - Parameters with scalars of their own ------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Analysis/Contract/InputContract.h"
#include "fsdp/Analysis/Contract/OptimizerContract.h"
#include "fsdp/Analysis/Contract/ParameterGroups.h"
#include "fsdp/Passes/Passes.h"

#include "mlir/IR/Remarks.h"

namespace mlir::fsdp {
#define GEN_PASS_DEF_ASSIGNGROUPS
#include "fsdp/Passes/Passes.h.inc"
} // namespace mlir::fsdp

using namespace mlir;
using namespace mlir::fsdp;

static void setGroup(TracedStep &step, const ParamInfo &param,
                     StringRef group) {
  unsigned index = param.arg.getArgNumber();
  Builder builder(step.func.getContext());
  NamedAttrList entries(
      step.func.getArgAttrOfType<DictionaryAttr>(index, names::kParam));
  entries.set("group", builder.getStringAttr(group));
  step.func.setArgAttr(index, names::kParam,
                       entries.getDictionary(builder.getContext()));
}

/// One remark a group: its parameters and elements.
static void report(const TracedStep &step, ArrayRef<GroupSpec> specs,
                   ArrayRef<std::optional<unsigned>> groups) {
  for (auto [index, spec] : llvm::enumerate(specs)) {
    int64_t parameters = 0, elements = 0;
    for (auto [param, group] : llvm::zip(step.params, groups))
      if (group == index && param.isTrainable()) {
        ++parameters;
        elements += param.getType().getNumElements();
      }
    remark::passed(
        const_cast<TracedStep &>(step).func.getLoc(),
        remark::RemarkOpts::name("Group").category("fsdp-assign-groups"))
        << (spec.name + " is a group of " + Twine(parameters) +
            " parameters, " + Twine(elements) + " elements")
               .str();
  }
}

namespace {
struct AssignGroups : fsdp::impl::AssignGroupsBase<AssignGroups> {
  using AssignGroupsBase::AssignGroupsBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    Attribute given = module->removeAttr(names::kOptimizerGroups);
    if ((group.empty() && !given) ||
        !module.lookupSymbol(names::kForwardBackward))
      return markAllAnalysesPreserved();
    if (auto func = module.lookupSymbol<func::FuncOp>(names::kOptimizer);
        func && given) {
      if (func->hasAttr(names::kOptimizerGroups)) {
        (void)refuseSecond(func, "those of the module");
        return signalPassFailure();
      }
      func->setAttr(names::kOptimizerGroups, given);
    }
    FailureOr<TracedStep> step = readTracedStep(module);
    FailureOr<OptimizerFunction> optimizer = readOptimizer(module);
    if (failed(step) || failed(optimizer) ||
        (!group.empty() && failed(assign(*step, *optimizer))))
      signalPassFailure();
  }

private:
  /// @func has groups already.
  static LogicalResult refuseSecond(func::FuncOp func, StringRef others) {
    InFlightDiagnostic diag = emitInputError(func->getParentOp());
    diag << "expected an optimizer without groups beside " << others
         << ", got some";
    diag.attachNote(func.getLoc()) << "it is here";
    return diag;
  }

  LogicalResult assign(TracedStep &step, OptimizerFunction &optimizer) {
    if (optimizer.groups)
      return refuseSecond(optimizer.func, "those of the options");
    SmallVector<std::string> texts(group.begin(), group.end());
    auto specs = GroupSpec::parseAll(texts);
    if (!specs)
      return emitInputError(step.func, llvm::toString(specs.takeError()));
    auto groups = assignGroups(step.params, *specs);
    if (!groups)
      return emitInputError(step.func, llvm::toString(groups.takeError()));

    optimizer.func->setAttr(names::kOptimizerGroups,
                            getGroupScalars(&getContext(), *specs));
    for (auto [param, index] : llvm::zip(step.params, *groups))
      if (index)
        setGroup(step, param, (*specs)[*index].name);
    report(step, *specs, *groups);
    return readOptimizer(optimizer.func);
  }
};
} // namespace
