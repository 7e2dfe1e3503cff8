//===- StepWork.cpp - What a step computes, and takes at least ------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "data/StepWork.h"

#include <cstdio>
#include <utility>
#include <vector>

namespace fsdp::rt::data {

namespace {

/// The programs of a step, and how often it runs each.
std::vector<std::pair<const Program *, int64_t>>
runsOf(const Manifest &manifest, int64_t accumulate) {
  if (accumulate == 1)
    return {{&manifest.train(), 1}};
  std::vector<std::pair<const Program *, int64_t>> runs = {
      {manifest.lastMicroBatch(), 1}};
  int64_t others = accumulate - 1;
  if (const Program *first = manifest.firstMicroBatch()) {
    runs.emplace_back(first, 1);
    --others;
  }
  if (others > 0)
    runs.emplace_back(manifest.microBatch(), others);
  return runs;
}

/// Adds what each of `runs` takes. Nothing is known of a sum where nothing is
/// known of a part.
void add(std::optional<double> &sum, std::optional<double> each, int64_t runs) {
  if (sum && each)
    *sum += *each * double(runs);
  else
    sum.reset();
}

std::optional<double> flopsOf(const Program &program) {
  if (!program.flops)
    return std::nullopt;
  return double(*program.flops);
}

std::optional<double> boundSecondsOf(const Program &program) {
  if (!program.bound)
    return std::nullopt;
  return double(program.bound->ns) / 1e9;
}

std::optional<double> secondsAtPeakOf(const Program &program) {
  if (!program.flops || !program.bound || !program.bound->peakFlops)
    return std::nullopt;
  return double(*program.flops) / double(*program.bound->peakFlops);
}

} // namespace

StepWork stepWork(const Manifest &manifest, int64_t accumulate) {
  StepWork work;
  work.flops = work.boundSeconds = work.secondsAtPeak = 0;
  double most = -1;
  for (auto [program, runs] : runsOf(manifest, accumulate)) {
    add(work.flops, flopsOf(*program), runs);
    add(work.boundSeconds, boundSecondsOf(*program), runs);
    add(work.secondsAtPeak, secondsAtPeakOf(*program), runs);
    if (!program->bound || double(program->bound->ns) * double(runs) <= most)
      continue;
    most = double(program->bound->ns) * double(runs);
    work.machine = program->bound->machine;
    work.limit = program->bound->limit;
  }
  return work;
}

std::string describeBound(const StepWork &work) {
  if (!work.boundSeconds)
    return "";
  char milliseconds[40];
  std::snprintf(milliseconds, sizeof milliseconds, "%.3f",
                *work.boundSeconds * 1e3);
  return std::string("bound: ") + milliseconds + " ms on " + work.machine +
         ", limited by " + work.limit;
}

} // namespace fsdp::rt::data
