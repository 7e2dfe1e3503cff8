//===- AccumulateChoice.cpp - Which accumulators are faster ---------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "AccumulateChoice.h"
#include "fsdp/Analysis/FormatBytes.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"

#include <tuple>

using namespace mlir;
using namespace mlir::fsdp;

StringRef fsdp::stringify(AccumulateIn in) {
  switch (in) {
  case AccumulateIn::None:
    return "none";
  case AccumulateIn::Shard:
    return "shard";
  case AccumulateIn::Whole:
    return "whole";
  case AccumulateIn::Auto:
    return "auto";
  }
  llvm_unreachable("not an AccumulateIn");
}

size_t fsdp::pickAccumulate(ArrayRef<AccumulateTrial> trials) {
  auto rank = [](const AccumulateTrial &trial) {
    return trial.fits
               ? std::tuple<bool, int64_t, int64_t>(false, trial.microBatch,
                                                    trial.last)
               : std::tuple<bool, int64_t, int64_t>(true, trial.leastBudget, 0);
  };
  return llvm::min_element(
             trials,
             [&](const AccumulateTrial &a, const AccumulateTrial &b) {
               return rank(a) < rank(b);
             }) -
         trials.begin();
}

std::string fsdp::describe(const AccumulateTrial &trial) {
  std::string text = ("accumulate in " + stringify(trial.in) + ": ").str();
  if (!trial.fits)
    return text + "does not fit, " + formatBytes(trial.leastBudget) + " would";
  return text + llvm::formatv("micro-batch {0:f3} ms, last {1:f3} ms, arena "
                              "{2:f1} MiB",
                              toSeconds(trial.microBatch) * 1e3,
                              toSeconds(trial.last) * 1e3,
                              trial.arenaBytes / 1048576.0)
                    .str();
}

std::string fsdp::describeTrials(ArrayRef<AccumulateTrial> trials,
                                 size_t picked) {
  std::string text = describe(trials[picked]);
  for (auto [i, trial] : llvm::enumerate(trials))
    if (i != picked)
      text += "; " + describe(trial);
  return text;
}
