//===- Executor.h - Runs a rank's programs and counts -----------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_PROGRAM_EXECUTOR_H
#define FSDP_RT_PROGRAM_EXECUTOR_H

#include "core/Status.h"
#include "fsdp-rt/abi.h"
#include "hal/Device.h"
#include "hal/World.h"
#include "program/Counters.h"
#include "program/Recorder.h"

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace fsdp::rt {

struct ExecutorOptions {
  hal::Layout layout;
  /// Keeps, per call site, calls, nanoseconds, bytes and flops: profile().
  bool profile = false;
  /// Records up to so many calls with their times: trace(). 0: none.
  int64_t traceEvents = 0;
};

/// Which of a step's micro-batches a run is.
struct StepPart {
  bool isFirst = true, isLast = true;
};

/// One rank's programs on its device. Create, use and destroy it on the rank's
/// own thread. A run allocates nothing.
class Executor final : private hal::RunLog {
public:
  /// `world` must outlive the executor.
  static Result<std::unique_ptr<Executor>>
  create(World &world, std::unique_ptr<hal::Device> device,
         const ExecutorOptions &options);

  /// Records and loads a program. Collective over the ranks that run it.
  /// `units` are those of hal::Recording::record().
  Result<std::unique_ptr<hal::Executable>>
  load(const fsdp_rt_program &program,
       const std::vector<std::string> &units = {});

  /// Gives the device one run: of a part of a step, or of a program that is
  /// none, of which counters, profile and trace know nothing. As many as the
  /// program's maxPending() may have been issued and not finished. The device's
  /// first failure, of which the other ranks have been told, is also that of
  /// every further run.
  Status issue(hal::Executable &program, std::optional<StepPart> part);
  /// Returns when the oldest run that was issued is over, with its failure.
  /// counters().lastStep has the times of all parts of a step.
  Status finish();
  int64_t pending() const { return issued_ - finished_; }

  /// Numbers of the run that is issued next, and of the one that was finished
  /// last.
  hal::RunRequest &next() { return at(issued_).request; }
  const hal::RunRequest &finished() const { return at(finished_ - 1).request; }

  /// Issues and finishes one.
  Status step(hal::Executable &program, StepPart part = {});
  Status run(hal::Executable &program);

  /// What the message of a failing check says beside its own text, in runs that
  /// are issued from now on.
  void setCheckNote(std::string note) { checkNote_ = std::move(note); }

  hal::Device &device() const { return *device_; }
  const hal::Layout &layout() const { return layout_; }
  World &world() { return world_; }

  /// Totals since creation; read them between steps.
  const Counters &counters() const { return counters_; }
  /// One row per name, in order of first call. Empty unless asked for.
  std::vector<ProfileRow> profile() const { return recorder_.profile(); }
  const Recorder &recorder() const { return recorder_; }

private:
  Executor(World &world, std::unique_ptr<hal::Device> device,
           const ExecutorOptions &options);
  void record(const CallRecord &call) override;

  struct Run {
    hal::RunRequest request;
    const hal::Executable *program = nullptr;
    std::optional<StepPart> part;
    int64_t begin = 0;
  };
  Run &at(int64_t number) {
    return runs_[static_cast<size_t>(number) % runs_.size()];
  }
  const Run &at(int64_t number) const {
    return runs_[static_cast<size_t>(number) % runs_.size()];
  }

  World &world_;
  hal::Layout layout_;
  std::unique_ptr<hal::Device> device_;
  std::string checkNote_;
  /// By number, of which the last ones count.
  std::array<Run, hal::mostPendingRuns> runs_;
  int64_t issued_ = 0, finished_ = 0;
  /// When the run before ended.
  int64_t lastEnd_ = 0;
  Counters counters_;
  Recorder recorder_;
};

} // namespace fsdp::rt

#endif // FSDP_RT_PROGRAM_EXECUTOR_H
