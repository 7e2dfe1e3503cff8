//===- AccumulateChoice.cpp - Which accumulators are faster ---------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Driver/AccumulateChoice.h"
#include "fsdp/Cost/FormatBytes.h"
#include "fsdp/Driver/Trials.h"

#include "llvm/Support/FormatVariadic.h"

#include <tuple>

using namespace mlir;
using namespace mlir::fsdp;

void AccumulateTrial::add(ProgramKind kind, Time time, int64_t bytes) {
  arenaBytes = std::max(arenaBytes, bytes);
  if (getTraits(kind).accumulates && !getTraits(kind).gathersForOthers)
    (getTraits(kind).updates ? last : microBatch) = time;
}

size_t fsdp::pickAccumulate(ArrayRef<AccumulateTrial> trials) {
  using Rank = std::tuple<bool, int64_t, int64_t>;
  return pickLeast(trials, [](const AccumulateTrial &trial) {
    return trial.fits ? Rank(false, trial.microBatch, trial.last)
                      : Rank(true, trial.leastBudget, 0);
  });
}

std::string fsdp::describe(const AccumulateTrial &trial) {
  std::string text = ("accumulate in " + getWord(trial.in) + ": ").str();
  if (!trial.fits)
    return text + "does not fit, " + formatBytes(trial.leastBudget) + " would";
  return text + llvm::formatv("micro-batch {0:f3} ms, last {1:f3} ms, arena "
                              "{2:f1} MiB",
                              toSeconds(trial.microBatch) * 1e3,
                              toSeconds(trial.last) * 1e3,
                              trial.arenaBytes / 1048576.0)
                    .str();
}
