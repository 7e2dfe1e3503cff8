//===- Reports.h - What a run tells its user --------------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_MAIN_REPORTS_H
#define FSDP_RT_MAIN_REPORTS_H

#include "data/DirectoryClaim.h"
#include "data/MetricsLog.h"
#include "main/Console.h"
#include "main/Training.h"
#include "program/Executor.h"
#include "trace/Trace.h"

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace fsdp::rt {

/// Calls that --trace keeps of each rank; 0 without it.
int64_t traceCapacity(const Options &options);

/// "the device's memory: arena 2.5 MiB, ..."; empty where it has none of its
/// own.
std::string describeMemory(const hal::DeviceFacts &facts);
/// Says that a program runs on another card than the one whose table decided
/// shapes of its kernels; empty where that is not so.
std::string findOtherTuning(const hal::DeviceFacts &facts,
                            const data::Manifest &manifest);
/// What takes more of the device's memory beside an arena of `arenaBytes` than
/// the `reservedBytes` that the program was compiled for; empty where nothing
/// does, or `reservedBytes` is 0.
std::string findUnreserved(const hal::DeviceFacts &facts, int64_t arenaBytes,
                           int64_t reservedBytes);

/// What one rank of a run tells: warnings, lines of the console and of
/// --metrics, a profile, a trace. All but the trace is rank 0's: calls of other
/// ranks do nothing.
class Reports {
public:
  /// `options` are the run's, with what a checkpoint says beside them, and must
  /// outlive this.
  Reports(const TrainingRun &run, const Options &options, int rank);

  /// Refuses files that cannot be written. What they hold stays.
  Status open();
  /// On every rank: each writes a file, maybe on a host of its own.
  Status openTrace();
  /// Makes the file of --metrics that of a run that begins with `firstStep`. A
  /// run that only evaluates appends: lines of later steps are as true as
  /// before.
  Status beginMetrics(int64_t firstStep);
  /// What runs the programs, which have been loaded.
  void setDevice(const hal::DeviceFacts &facts);
  /// From here on there is a console, whose first lines are `remarks` and, of a
  /// run that trains, the bound of a step.
  void beginConsole(int64_t firstStep, const std::vector<std::string> &remarks);

  /// Warnings from before the first step, and after the last one.
  void tell(const std::vector<std::string> &notes) const;
  /// Warnings that differ in numbers alone are of one kind.
  void warnOnce(const std::string &text);

  /// What `metrics` has of the step is its number, loss, norm, scale and rate.
  void step(data::StepMetrics metrics, double seconds, const StepTimes &times);
  void evaluation(int64_t step, double loss, Dtype dtype, int64_t batches);
  /// Whether the run ends since nobody reads its lines.
  bool isUnread() const;

  /// Writes profile and trace.
  Status writeRecords(const Executor &executor, LearningRates rates) const;
  /// Refuses where lines of --metrics were lost.
  Status checkMetrics() const;
  /// The console's last line.
  Status finish();

private:
  bool isFirst() const { return rank_ == 0; }
  std::string traceFile() const;
  void log(int64_t step, const std::string &line);

  const TrainingRun &run_;
  const Options &options_;
  const data::StepWork work_;
  const int rank_;
  int64_t deviceBytes_ = 0; // 0: what the process has of the host's memory
  data::MetricsLog metrics_;
  data::DirectoryClaim traces_;
  std::unique_ptr<Console> console_;
  std::set<std::string> told_; // warnings, without their numbers
};

} // namespace fsdp::rt

#endif // FSDP_RT_MAIN_REPORTS_H
