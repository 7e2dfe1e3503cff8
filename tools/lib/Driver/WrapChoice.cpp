//===- WrapChoice.cpp - Which units are fastest ---------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Driver/WrapChoice.h"
#include "fsdp/Analysis/Step/WrapPolicy.h"
#include "fsdp/Cost/FormatBytes.h"
#include "fsdp/Driver/Trials.h"

#include "mlir/IR/Diagnostics.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace mlir::fsdp;

std::vector<std::string> fsdp::getWraps(ModuleOp traced, StringRef other) {
  // The first is what is left where a step breaks the contract: whoever lowers
  // it says so.
  static constexpr StringLiteral kWraps[] = {"blocks", "pieces", "none"};
  ScopedDiagnosticHandler quiet(traced.getContext(),
                                [](Diagnostic &) { return success(); });
  FailureOr<TracedStep> step = readTracedStep(traced);
  if (failed(step))
    return {kWraps[0].str()};
  std::vector<WrapParam> params = getWrapParams(step->params);
  std::vector<std::vector<std::string>> known;
  // False for units that there are already, and wraps that there are not.
  auto add = [&](StringRef wrap) {
    auto policy = WrapPolicy::parse(wrap);
    if (!policy) {
      llvm::consumeError(policy.takeError());
      return false;
    }
    auto units = assignUnits(step->modules, params, *policy);
    if (!units) {
      llvm::consumeError(units.takeError());
      return false;
    }
    if (llvm::is_contained(known, *units))
      return false;
    known.push_back(std::move(*units));
    return true;
  };
  add(other);
  std::vector<std::string> wraps;
  for (StringRef wrap : kWraps)
    if (add(wrap))
      wraps.push_back(wrap.str());
  return wraps;
}

size_t fsdp::pickWrap(ArrayRef<WrapTrial> trials) {
  return pickLeast(trials, [](const WrapTrial &trial) {
    return std::pair(!trial.fits, trial.fits ? trial.step : trial.leastBudget);
  });
}

std::string fsdp::describe(const WrapTrial &trial) {
  if (trial.fits)
    return llvm::formatv("wrap {0}: {1:f3} ms", trial.wrap,
                         toSeconds(trial.step) * 1e3);
  return "wrap " + trial.wrap + ": does not fit, " +
         formatBytes(trial.leastBudget) + " would";
}
