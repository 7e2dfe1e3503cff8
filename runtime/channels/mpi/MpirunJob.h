//===- MpirunJob.h - One running mpirun -------------------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_CHANNELS_MPI_MPIRUNJOB_H
#define FSDP_RT_CHANNELS_MPI_MPIRUNJOB_H

#include "MpirunOutput.h"

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>

namespace fsdp::rt {

/// Stands between an mpirun, a child of this process, and this process's own
/// output and signals.
class MpirunJob {
public:
  /// How long mpirun may take to end after it was asked to.
  static constexpr int graceSeconds = 5;

  /// Where mpirun's standard output and error can be read, and a signalfd on
  /// which signals for the job queue; all stay the caller's. `endsWithOutput`:
  /// a reader of this process's output who goes away ends the job at once.
  MpirunJob(pid_t mpirun, int output, int errors, int signals,
            bool endsWithOutput)
      : mpirun_(mpirun), output_(output), errors_(errors), signals_(signals),
        endsWithOutput_(endsWithOutput) {}

  /// Shows what the job says and passes signals on until mpirun has ended.
  /// Returns its wait status.
  int watch();

  const MpirunOutput &said() const { return said_; }
  /// Whether mpirun was asked to end the ranks, not the ranks to end.
  bool wasAskedToEnd() const { return wasAskedToEnd_; }
  /// Whether mpirun had to be killed.
  bool wasKilled() const { return wasKilled_; }
  /// Whether some of the job's standard output could not be written.
  bool hasLostOutput() const { return hasLostOutput_; }

private:
  using Clock = std::chrono::steady_clock;
  int millisecondsLeft() const;
  void readSignals();
  void interrupt();
  void askToEnd();
  void kill();
  void readErrors();
  void readOutput();
  void writeOutput();
  void drain();
  void loseReader();
  void show(const std::string &text);

  pid_t mpirun_;
  int output_, errors_; // -1: at its end
  int signals_;
  bool endsWithOutput_;
  int interrupts_ = 0;
  std::optional<Clock::time_point> killAt_;
  bool hasEnded_ = false;
  bool wasAskedToEnd_ = false;
  bool wasKilled_ = false;
  bool hasLostOutput_ = false;
  /// Nobody listens any more.
  bool isMute_ = false;
  /// Read, but not yet written. While it is not empty nothing more is read.
  std::string pending_;
  MpirunOutput said_;
};

} // namespace fsdp::rt

#endif // FSDP_RT_CHANNELS_MPI_MPIRUNJOB_H
