//===- Trace.h - Files that show where a step's time went -------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_TRACE_TRACE_H
#define FSDP_RT_TRACE_TRACE_H

#include "core/Status.h"
#include "data/Manifest.h"
#include "program/Executor.h"

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace fsdp::rt {

using LearningRates = std::function<std::optional<double>(int64_t step)>;

/// What a trace says besides its calls.
struct TraceHeader {
  int rank = 0, worldSize = 1;
  /// By the manifest's group.
  std::vector<int64_t> groupSizes;
  /// What the code is, and what its transfers are for; none of steps of several
  /// programs.
  std::optional<data::Certificate> certificate;
  /// Micro-batches of a step, and the names of the programs that they run.
  int64_t accumulate = 1;
  std::vector<std::string> programs;
  /// Of a step, counted from 0 in the run; none where no schedule decides it.
  LearningRates learningRateOf;
};

/// Of a rank of a run whose steps have `accumulate` micro-batches.
TraceHeader traceHeader(const data::Manifest &manifest, int rank,
                        int64_t accumulate);

/// Writes the recorded calls of one rank as PyTorch's profiler writes those of
/// a GPU, so that Perfetto and HolisticTraceAnalysis read it, and as fsdp-plan
/// writes its simulation: a stream for each queue, whether it had a thread or
/// not, collectives by the names of NCCL's kernels, waits as synchronisation.
/// Times are microseconds since the first call. Written as data::replaceFile
/// does.
Status writeTrace(const std::string &path, const TraceHeader &header,
                  const Recorder &recorder);

/// Writes one rank's profile as JSON: the step's times in nanoseconds and one
/// object per name, the most expensive first, with calls, nanoseconds (in all,
/// and of an undisturbed step), bytes, flops, GB/s and GFLOP/s; then every
/// matrix product with its shape and place. Written as data::replaceFile does.
Status writeProfile(const std::string &path, int rank,
                    const Executor &executor);

} // namespace fsdp::rt

#endif // FSDP_RT_TRACE_TRACE_H
