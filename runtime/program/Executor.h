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

#include <cstdint>
#include <memory>
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

  /// Runs one step to its end. The device's first failure, of which the other
  /// ranks have been told, is also that of every further step. A step of
  /// several micro-batches calls it for each, and says of which it is the first
  /// and the last: counters().lastStep has the times of all of them.
  Status step(hal::Executable &program, bool isFirst = true,
              bool isLast = true);
  /// The same of a program that is no step: counters, profile and trace stay as
  /// they were.
  Status run(hal::Executable &program);

  /// What the message of a failing check says beside its own text.
  void setCheckNote(std::string note) { request_.checkNote = std::move(note); }

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

  World &world_;
  hal::Layout layout_;
  std::unique_ptr<hal::Device> device_;
  hal::RunRequest request_;
  Counters counters_;
  Recorder recorder_;
};

} // namespace fsdp::rt

#endif // FSDP_RT_PROGRAM_EXECUTOR_H
