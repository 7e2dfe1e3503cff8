//===- LocalBackend.cpp - Ranks are threads of this process ---------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "LocalBackend.h"

#include "LocalChannel.h"
#include "LocalWorld.h"
#include "control/Launch.h"
#include "core/Group.h"
#include "core/Host.h"

#include <pthread.h>

#include <exception>
#include <system_error>
#include <thread>

namespace fsdp::rt {

std::shared_ptr<LocalGroup> LocalProgram::group(const std::vector<int> &ranks,
                                                int nth) {
  std::lock_guard<std::mutex> lock(mutex_);
  std::shared_ptr<LocalGroup> &group = groups_[{ranks, nth}];
  if (!group) {
    group = std::make_shared<LocalGroup>(ranks, spin_, options_.waitLimit);
    if (!failure_.isOk())
      group->breakUp();
    for (int rank : ranks)
      if (hasLeft_[rank])
        group->leave(rank);
  }
  return group;
}

void LocalProgram::abort(int rank, const Status &why) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (!failure_.isOk())
    return;
  failure_ = why.isOk() ? Status::internal("aborted without a reason") : why;
  if (size() > 1)
    failure_ = failure_.withContext("rank " + std::to_string(rank));
  for (auto &entry : groups_)
    entry.second->breakUp();
}

void LocalProgram::leave(int rank) {
  std::lock_guard<std::mutex> lock(mutex_);
  hasLeft_[rank] = true;
  for (auto &entry : groups_)
    for (int member : entry.second->ranks())
      if (member == rank)
        entry.second->leave(rank);
}

Status LocalProgram::failure() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return failure_;
}

void LocalWorld::crossHostLink(int32_t kind, int64_t bytes, int64_t begin) {
  const LocalBackendOptions &options = program_.options();
  if (!options.hasLink())
    return;
  int64_t onLink =
      options.linkBytesPerSecond > 0
          ? linkNanoseconds(double(bytes) / options.linkBytesPerSecond)
          : 0;
  int64_t from = begin + linkNanoseconds(options.linkLatencySeconds);
  sleepUntil(from);
  program_.hostLink(rank_, kind == FSDP_RT_RELOAD).cross(from, onLink);
}

Result<std::unique_ptr<hal::HostChannel>>
LocalWorld::openChannel(const std::vector<int> &ranks, ThreadPool *pool) {
  Result<int> place = placeInGroup(ranks, rank_, size());
  if (!place.isOk())
    return place.status();
  std::unique_ptr<hal::HostChannel> channel = std::make_unique<LocalChannel>(
      program_, program_.group(ranks, created_[ranks]++), *place, pool);
  return Result<std::unique_ptr<hal::HostChannel>>(std::move(channel));
}

namespace {

class LocalBackend final : public Backend {
public:
  explicit LocalBackend(const LocalBackendOptions &options)
      : options_(options) {}

  std::string name() const override { return "local"; }
  bool reportsFailure() const override { return true; }

  Status run(const std::function<Status(World &)> &body) override {
    bool spin =
        int64_t(options_.ranks) * options_.threadsPerRank <= availableCores();
    LocalProgram program(options_, spin);
    std::vector<std::thread> threads;
    bool hasStarted = true;
    try {
      for (int rank = 1; rank < options_.ranks; ++rank) {
        threads.emplace_back([&, rank] { runRank(program, rank, body); });
        std::string name = "fsdp-rank-" + std::to_string(rank);
        pthread_setname_np(threads.back().native_handle(), name.c_str());
      }
    } catch (const std::system_error &error) {
      hasStarted = false;
      int missing = static_cast<int>(threads.size()) + 1;
      program.abort(missing,
                    Status::failed(std::string("cannot start its thread: ") +
                                   error.what()));
    }
    if (hasStarted)
      runRank(program, 0, body);
    for (std::thread &thread : threads)
      thread.join();
    return program.failure();
  }

private:
  static void runRank(LocalProgram &program, int rank,
                      const std::function<Status(World &)> &body) {
    LocalWorld world(program, rank);
    Status status;
    try {
      status = body(world);
    } catch (const std::exception &error) {
      status = Status::internal(std::string("unexpected exception: ") +
                                error.what());
    }
    if (status)
      program.abort(rank, status);
    program.leave(rank);
  }

  LocalBackendOptions options_;
};

} // namespace

Result<std::unique_ptr<Backend>>
createLocalBackend(const LocalBackendOptions &options) {
  if (options.ranks < 1 || options.ranks > maxRanksOnHost)
    return Status::failed("expected 1 to " + std::to_string(maxRanksOnHost) +
                          " ranks in one process, got " +
                          std::to_string(options.ranks));
  if (options.threadsPerRank < 1)
    return Status::failed("expected at least 1 thread per rank, got " +
                          std::to_string(options.threadsPerRank));
  if (!(options.linkBytesPerSecond >= 0) || !(options.linkLatencySeconds >= 0))
    return Status::failed("expected a link of at least 0 bytes per second and "
                          "0 seconds latency, got " +
                          std::to_string(options.linkBytesPerSecond) + " and " +
                          std::to_string(options.linkLatencySeconds));
  std::unique_ptr<Backend> backend = std::make_unique<LocalBackend>(options);
  return Result<std::unique_ptr<Backend>>(std::move(backend));
}

static Result<std::unique_ptr<Backend>> create(const BackendRequest &request) {
  LocalBackendOptions options;
  options.ranks = request.ranks;
  if (request.link) {
    options.linkBytesPerSecond = request.link->bytesPerSecond;
    options.linkLatencySeconds = request.link->latencySeconds;
  }
  options.waitLimit = request.waitLimit;
  options.threadsPerRank =
      request.countBusyThreads(options.hasLink(), request.ranks);
  return createLocalBackend(options);
}

const BackendKind localBackend = {"local", /*isRankPerProcess=*/false,
                                  /*checkLaunch=*/nullptr, create,
                                  /*relaunch=*/nullptr};

} // namespace fsdp::rt
