//===- AddOptimizer.cpp - A built-in optimizer for a step without one -----===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "BuiltinOptimizers.h"
#include "fsdp/Analysis/Contract/InputContract.h"
#include "fsdp/Analysis/Contract/ParameterGroups.h"
#include "fsdp/Passes/Passes.h"

namespace mlir::fsdp {
#define GEN_PASS_DEF_ADDOPTIMIZER
#include "fsdp/Passes/Passes.h.inc"
} // namespace mlir::fsdp

using namespace mlir;
using namespace mlir::fsdp;

namespace {
struct AddOptimizer : fsdp::impl::AddOptimizerBase<AddOptimizer> {
  using AddOptimizerBase::AddOptimizerBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    if (!module.lookupSymbol(names::kForwardBackward))
      return markAllAnalysesPreserved();
    auto proposed =
        dyn_cast_or_null<StringAttr>(module->removeAttr(names::kOptimizerSpec));
    if (Operation *present = module.lookupSymbol(names::kOptimizer)) {
      if (optimizer.empty() && runTimeScalars.empty()) {
        if (proposed)
          emitWarning(module.getLoc())
              << names::kOptimizerSpec << " " << proposed
              << " is left out, since there is an @optimizer";
        return;
      }
      refuse(present);
      return signalPassFailure();
    }
    auto spec = OptimizerSpec::parse(!optimizer.empty() ? StringRef(optimizer)
                                     : proposed         ? proposed.getValue()
                                                        : StringRef("adamw"));
    if (!spec) {
      emitInputError(module, llvm::toString(spec.takeError()));
      return signalPassFailure();
    }
    auto scalars = spec->parseRunTimeScalars(runTimeScalars);
    if (!scalars) {
      emitInputError(module, "optimizer-scalars: " +
                                 llvm::toString(scalars.takeError()));
      return signalPassFailure();
    }
    if (llvm::Error error = addGroupScalars(*spec, *scalars)) {
      emitInputError(module, llvm::toString(std::move(error)));
      return signalPassFailure();
    }
    OpBuilder builder(&getContext());
    module.push_back(
        createOptimizer(builder, module.getLoc(), *spec, *scalars));
  }

private:
  /// Appends to @scalars the names that @groups, a dictionary as
  /// fsdp.optimizer_groups, gives numbers for; fails where @spec has no such
  /// number, or not of such a value. Other entries are left to readOptimizer.
  static llvm::Error addScalarsOf(DictionaryAttr groups,
                                  const OptimizerSpec &spec,
                                  SmallVectorImpl<StringRef> &scalars) {
    for (NamedAttribute group : groups) {
      auto entries = dyn_cast<DictionaryAttr>(group.getValue());
      if (!entries)
        continue;
      for (NamedAttribute entry : entries) {
        auto value = dyn_cast<FloatAttr>(entry.getValue());
        if (!value)
          continue;
        StringRef name = entry.getName();
        if (llvm::Error error =
                spec.checkNumber(name, value.getValueAsDouble()))
          return llvm::createStringError(
              "group '" + group.getName().strref() +
              "': " + llvm::toString(std::move(error)));
        if (!llvm::is_contained(scalars, name))
          scalars.push_back(name);
      }
    }
    return llvm::Error::success();
  }

  /// Of the groups of options and those of the module.
  llvm::Error addGroupScalars(const OptimizerSpec &spec,
                              SmallVectorImpl<StringRef> &scalars) {
    SmallVector<std::string> texts(group.begin(), group.end());
    auto specs = GroupSpec::parseAll(texts);
    if (!specs)
      return specs.takeError();
    if (llvm::Error error =
            addScalarsOf(getGroupScalars(&getContext(), *specs), spec, scalars))
      return error;
    auto given =
        getOperation()->getAttrOfType<DictionaryAttr>(names::kOptimizerGroups);
    return given ? addScalarsOf(given, spec, scalars) : llvm::Error::success();
  }

  /// Which arguments an optimizer of the step's has is decided there.
  void refuse(Operation *present) {
    ModuleOp module = getOperation();
    InFlightDiagnostic diag =
        optimizer.empty()
            ? emitInputError(module, "expected a built-in optimizer beside "
                                     "optimizer-scalars, got @optimizer")
            : emitInputError(module, "expected a module without "
                                     "@optimizer to add ")
                  << optimizer << " to";
    diag.attachNote(present->getLoc()) << "it is here";
  }
};
} // namespace
