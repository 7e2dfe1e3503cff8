//===- RankTeam.h - Ranks that wait for calls --------------------*- C++
//-*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_MAIN_RANKTEAM_H
#define FSDP_RT_MAIN_RANKTEAM_H

#include "control/Backend.h"
#include "main/Rank.h"

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

namespace fsdp::rt {

/// The ranks of a program that this process hosts, each on a thread of its own,
/// between calls asleep. Used by one thread at a time.
class RankTeam {
public:
  using Call = std::function<Status(Rank &)>;

  /// Starts `count` ranks and creates their state; fails with what any of them
  /// fails with. `artifact` and `manifest` must outlive the team.
  static Result<std::unique_ptr<RankTeam>>
  start(std::unique_ptr<Backend> backend, int count,
        const fsdp_rt_artifact &artifact, const data::Manifest &manifest,
        const RankOptions &options);
  /// Ends the ranks.
  ~RankTeam();

  enum class OnFailure {
    /// All ranks fail alike and can go on.
    Continue,
    /// Ranks may be left waiting for one that failed: the team ends.
    End,
  };
  /// Runs `call` on every rank and returns when all are done, with the failure
  /// of the lowest one or, where the team ended, the program's first failure.
  Status call(OnFailure onFailure, const Call &call);

private:
  explicit RankTeam(std::unique_ptr<Backend> backend, int count)
      : backend_(std::move(backend)), count_(count) {}
  Status serve(World &host, const fsdp_rt_artifact &artifact,
               const data::Manifest &manifest, const RankOptions &options);
  Status serveCalls(Rank &rank);
  void finish(int rank, const Status &status);
  void end();
  Status waitForAll(std::unique_lock<std::mutex> &lock);

  std::unique_ptr<Backend> backend_;
  const int count_;
  std::thread thread_;

  std::mutex mutex_;
  std::condition_variable changed_;
  const Call *call_ = nullptr;
  OnFailure onFailure_ = OnFailure::Continue;
  int64_t generation_ = 0; // of the call; ranks take each once
  int pending_ = 0;        // ranks that have not finished it
  int failedRank_ = -1;
  Status failure_; // of the call
  bool isEnding_ = false;
  bool hasEnded_ = false;
  Status outcome_; // of the backend, once it has ended
};

} // namespace fsdp::rt

#endif // FSDP_RT_MAIN_RANKTEAM_H
