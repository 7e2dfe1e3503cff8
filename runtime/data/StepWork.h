//===- StepWork.h - What a step computes, and takes at least ----*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_DATA_STEPWORK_H
#define FSDP_RT_DATA_STEPWORK_H

#include "data/Manifest.h"

#include <cstdint>
#include <optional>
#include <string>

namespace fsdp::rt::data {

/// A step of one rank: a run of the program of kind train, or with accumulation
/// the runs of the programs of all its micro-batches. What is not known of one
/// of them is not known of the step.
struct StepWork {
  std::optional<double> flops;
  /// What the machine that the step was compiled for takes at least.
  std::optional<double> boundSeconds;
  /// What the flops take at the peak of that machine's units.
  std::optional<double> secondsAtPeak;
  /// That machine, and the limit of the program that most of the bound is of.
  std::string machine, limit;
};

/// Of a step of `accumulate` micro-batches, at least one.
StepWork stepWork(const Manifest &manifest, int64_t accumulate);

/// "bound: 12.300 ms on h100-sxm, limited by compute"; empty where the bound is
/// not known.
std::string describeBound(const StepWork &work);

} // namespace fsdp::rt::data

#endif // FSDP_RT_DATA_STEPWORK_H
