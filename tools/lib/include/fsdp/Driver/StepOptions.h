//===- StepOptions.h - Which step, and how it is compiled -------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_DRIVER_STEPOPTIONS_H
#define FSDP_DRIVER_STEPOPTIONS_H

#include "fsdp/Driver/InputFile.h"
#include "fsdp/Passes/Pipelines.h"

#include <string>
#include <vector>

namespace mlir::fsdp {

/// What the tools that read a traced step share: the options of the pipelines,
/// and where the step is.
struct StepOptions {
  StepOptions() { partition.mesh = "shard=1"; }

  std::string input, optimizerFile;
  /// Libraries that add dialects, or hooks to fsdp's.
  std::vector<std::string> dialectPlugins;
  /// Bytes of each of the two, once decompressed.
  int64_t inputLimit = kDefaultInputLimit;
  Copyable<PartitionOptions> partition;
  /// With limits of the targets that kernels are made for.
  Copyable<KernelOptions> kernels;
  /// `cluster`: a cluster file, or the name of one that is installed; empty:
  /// every collective stands where its result is needed.
  Copyable<SchedulePipelineOptions> schedule;
  /// "24GiB": what a rank may use, with what driver and libraries take; empty:
  /// what the cluster's device has.
  std::string memoryBudget;
  /// Print how long each part took to stderr.
  bool timing = false;

  /// The options of the pipelines that tools have, in their order.
  llvm::SmallVector<ListedOption *> getListed() const;
  /// All that the step's programs and kernels depend on: of two steps of one
  /// input with equal keys, either may stand for the other until it is planned.
  std::string getKernelKey() const;
};

/// Those of @options that tools have.
llvm::SmallVector<ListedOption *> getListed(const PipelineOptions &options);

} // namespace mlir::fsdp

#endif // FSDP_DRIVER_STEPOPTIONS_H
