//===- TcpControl.h - One outcome for all processes -------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_CHANNELS_TCP_TCPCONTROL_H
#define FSDP_RT_CHANNELS_TCP_TCPCONTROL_H

#include "channels/tcp/Socket.h"
#include "channels/tcp/TcpJob.h"
#include "core/Status.h"

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace fsdp::rt {

/// Failures and ends of a job's ranks. Every rank tells rank 0, which tells all
/// others; a thread listens.
class TcpControl {
public:
  /// `job` must outlive it. `graceSeconds`: after a failure, how long a rank
  /// that does not come to its end is waited for.
  TcpControl(TcpJob &job, double graceSeconds);
  ~TcpControl();
  TcpControl(const TcpControl &) = delete;
  Status start();

  /// This rank's part of a run begins: a failure where another rank is gone.
  Status beginRun();
  /// This rank has failed. Idempotent.
  void abort(const Status &why);
  /// The program's failure, as far as this rank has heard of it.
  Status failure();
  /// Readable once there is one.
  int wakeup() const { return wakeup_.get(); }

  /// This rank's part has ended. Returns when all have, or did not within the
  /// grace after a failure: with what all return.
  Status endRun(const Status &mine);
  /// Whether rank 0, which would have told the user, is gone or silent.
  bool hasLostRankZero();

private:
  struct Message;
  void listen();
  bool receive(int from);
  void handle(int from, const Message &message, const std::string &text);
  void lose(int from);
  /// The first failure stays; rank 0 tells all others.
  void fail(const Status &why);
  Status lossOf(int rank) const;
  void send(size_t link, int kind, const Status &status);
  void sendAllOthers(int kind, const Status &status);
  bool areAllDone() const;
  /// Adds to the failure who has not come to the end of the run after it.
  void nameMissing();

  TcpJob &job_;
  int64_t graceNanoseconds_;
  std::vector<Socket> links_;
  /// A pair: what is written to one of them wakes who polls the other.
  Socket wakeup_, waker_, stop_, stopper_;
  std::thread thread_;
  std::mutex mutex_;
  std::condition_variable changed_;
  Status failure_;
  int64_t failedAt_ = 0;
  /// Of rank 0: whose part of this run has ended, and who is gone.
  std::vector<bool> isDone_, isGone_;
  bool hasVerdict_ = false, hasLostRankZero_ = false;
};

} // namespace fsdp::rt

#endif // FSDP_RT_CHANNELS_TCP_TCPCONTROL_H
