//===- RankTeam.cpp - Ranks that wait for calls ---------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "main/RankTeam.h"

#include "main/Interrupt.h"
#include "main/SharedSettings.h"

#include <exception>
#include <new>
#include <optional>
#include <system_error>

namespace fsdp::rt {

namespace {

/// What must not leave a rank's thread becomes a status.
template <typename Body>
Status guarded(const Body &body) {
  try {
    return body();
  } catch (const std::bad_alloc &) {
    return Status::failed("out of memory");
  } catch (const std::exception &error) {
    return Status::internal(error.what());
  }
}

} // namespace

Result<std::unique_ptr<RankTeam>>
RankTeam::start(std::unique_ptr<Backend> backend, int count,
                const fsdp_rt_artifact &artifact,
                const data::Manifest &manifest, const RankOptions &options) {
  std::unique_ptr<RankTeam> team(new RankTeam(std::move(backend), count));
  team->pending_ = count;
  // Who made the session has handlers of his own, for threads of his own.
  std::optional<SignalBlock> block(SignalBlock::ofOthers());
  try {
    team->thread_ =
        std::thread([self = team.get(), &artifact, &manifest, options] {
          Status status = guarded([&] {
            return self->backend_->run([&](World &host) {
              Status s = guarded([&] {
                return self->serve(host, artifact, manifest, options);
              });
              if (s)
                self->end();
              return s;
            });
          });
          std::lock_guard<std::mutex> lock(self->mutex_);
          self->outcome_ = std::move(status);
          self->hasEnded_ = true;
          self->changed_.notify_all();
        });
  } catch (const std::system_error &error) {
    return Status::failed(std::string("cannot start a thread: ") +
                          error.what());
  }
  block.reset();
  std::unique_lock<std::mutex> lock(team->mutex_);
  Status status = team->waitForAll(lock);
  lock.unlock();
  if (status)
    return status;
  return team;
}

RankTeam::~RankTeam() {
  end();
  if (thread_.joinable())
    thread_.join();
}

/// The backend waits for all ranks, and those that wait for a call would not
/// notice that another one failed.
void RankTeam::end() {
  std::lock_guard<std::mutex> lock(mutex_);
  isEnding_ = true;
  changed_.notify_all();
}

Status RankTeam::serve(World &host, const fsdp_rt_artifact &artifact,
                       const data::Manifest &manifest,
                       const RankOptions &options) {
  Result<std::unique_ptr<hal::HostChannel>> world = host.openChannelOfAll();
  if (!world.isOk())
    return world.status();
  Consensus ranks(**world);
  std::vector<Setting> settings =
      agreedSettings(*options.device.device, options.settings);
  settings.insert(settings.begin(), programSetting(manifest));
  if (Status s = ranks.agreeOn(settings))
    return s;
  Result<std::unique_ptr<Rank>> rank =
      Rank::create(host, ranks, artifact, manifest, options);
  if (!rank.isOk())
    return rank.status();
  finish(host.rank(), Status::ok());
  Status status = serveCalls(**rank);
  if (status)
    // Before the channels go: the others should hear why, not that this
    // rank is gone.
    host.abort(status);
  return status;
}

Status RankTeam::serveCalls(Rank &rank) {
  for (int64_t served = 0;;) {
    const Call *call;
    OnFailure onFailure;
    {
      std::unique_lock<std::mutex> lock(mutex_);
      changed_.wait(lock, [&] { return isEnding_ || generation_ > served; });
      // A call that came before the end is still owed to the other ranks.
      if (generation_ == served)
        return Status::ok();
      served = generation_;
      call = call_;
      onFailure = onFailure_;
    }
    Status status = guarded([&] { return (*call)(rank); });
    finish(rank.number(), status);
    if (status && onFailure == OnFailure::End)
      return status;
  }
}

void RankTeam::finish(int rank, const Status &status) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (status && (failedRank_ < 0 || rank < failedRank_)) {
    failedRank_ = rank;
    failure_ = status;
  }
  --pending_;
  changed_.notify_all();
}

/// Where the team ends, the backend knows which failure was the first.
Status RankTeam::waitForAll(std::unique_lock<std::mutex> &lock) {
  changed_.wait(lock, [&] { return pending_ == 0 || hasEnded_; });
  if (failure_ && onFailure_ == OnFailure::End)
    changed_.wait(lock, [&] { return hasEnded_; });
  if (hasEnded_)
    return outcome_ ? outcome_
                    : Status::internal("the ranks ended without a failure");
  return failure_;
}

Status RankTeam::call(OnFailure onFailure, const Call &call) {
  std::unique_lock<std::mutex> lock(mutex_);
  if (hasEnded_)
    return outcome_ ? outcome_.withContext("the session ended")
                    : Status::internal("the ranks ended without a failure");
  call_ = &call;
  onFailure_ = onFailure;
  failure_ = Status::ok();
  failedRank_ = -1;
  pending_ = count_;
  ++generation_;
  changed_.notify_all();
  return waitForAll(lock);
}

} // namespace fsdp::rt
