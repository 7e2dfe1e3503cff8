//===- MpiBackend.cpp - Ranks are processes of an MPI job -----------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "MpiBackend.h"

#include "HostResources.h"
#include "MpiChannel.h"
#include "MpiWorker.h"
#include "core/Group.h"
#include "core/Host.h"

#include <atomic>
#include <exception>
#include <map>
#include <utility>
#include <vector>

namespace fsdp::rt {

namespace {

class MpiWorld final : public World {
public:
  MpiWorld(MpiWorker &worker, const LaunchInfo &launch,
           const MpiBackendOptions &options)
      : worker_(worker), launch_(launch), options_(options) {}

  int rank() const override { return launch_.rank; }
  int size() const override { return launch_.size; }
  int localRank() const override { return launch_.localRank; }
  int localSize() const override { return launch_.localSize; }
  bool hasLink() const override { return launch_.localSize < launch_.size; }
  int64_t waitLimit() const override { return options_.waitLimit; }
  void abort(const Status &why) override { worker_.requestAbort(why); }
  Status failure() override {
    Status status;
    auto ask = [&](MpiEngine &engine) {
      if (engine.hasFailed())
        status = engine.failure();
    };
    worker_.run(ask);
    return status;
  }

  Result<std::unique_ptr<hal::HostChannel>>
  openChannel(const std::vector<int> &ranks, ThreadPool *pool) override {
    Result<int> place = placeInGroup(ranks, rank(), size());
    if (!place.isOk())
      return place.status();
    // No message is needed: the ranks alone name a group.
    auto channel = std::make_unique<MpiChannel>(
        worker_, options_, ranks, *place, created_[ranks]++, pool);
    if (Status s = channel->reserve())
      return s;
    return Result<std::unique_ptr<hal::HostChannel>>(std::move(channel));
  }

private:
  MpiWorker &worker_;
  const LaunchInfo &launch_;
  const MpiBackendOptions &options_;
  /// How many channels this rank has opened over the same ranks.
  std::map<std::vector<int>, int> created_;
};

class MpiBackend final : public Backend {
public:
  MpiBackend(const MpiLibrary &library, const LaunchInfo &launch,
             const MpiBackendOptions &options)
      : launch_(launch), options_(options),
        worker_(library, options.waitLimit) {}

  ~MpiBackend() override {
    auto end = [](MpiEngine &engine) { engine.finalize(); };
    if (isUp_)
      worker_.run(end);
  }

  Status start() {
    if (launch_.localSize == launch_.size)
      useSharedMemoryAlone(launch_.size);
    if (Status s = worker_.start())
      return s;
    bool spin = int64_t(launch_.localSize) * options_.threadsPerRank <=
                availableCores();
    Status status;
    auto begin = [&](MpiEngine &engine) {
      status =
          engine.init(spin, static_cast<int64_t>(options_.graceSeconds * 1e9),
                      launch_.launcher == Launcher::Mpirun);
      isUp_ = status.isOk();
      if (isUp_ &&
          (engine.rank() != launch_.rank || engine.size() != launch_.size))
        status =
            Status::failed("expected rank " + std::to_string(launch_.rank) +
                           " of " + std::to_string(launch_.size) +
                           ", got rank " + std::to_string(engine.rank()) +
                           " of " + std::to_string(engine.size()) +
                           " from MPI (" + launch_.variables + ")");
    };
    worker_.run(begin);
    return status;
  }

  std::string name() const override { return "mpi"; }
  bool reportsFailure() const override { return reportsFailure_; }

  Status run(const std::function<Status(World &)> &body) override {
    if (hasFailed_)
      return Status::failed("expected no run after a failed one: the ranks "
                            "have lost step");
    MpiWorld world(worker_, launch_, options_);
    Status status;
    try {
      status = body(world);
    } catch (const std::exception &error) {
      status = Status::internal(std::string("unexpected exception: ") +
                                error.what());
    }
    auto end = [&](MpiEngine &engine) {
      status = engine.endRun(status, reportsFailure_);
    };
    worker_.run(end);
    hasFailed_ = !status.isOk();
    return status;
  }

private:
  LaunchInfo launch_;
  MpiBackendOptions options_;
  MpiWorker worker_;
  bool isUp_ = false;
  bool hasFailed_ = false;
  bool reportsFailure_ = false;
};

Status checkOptions(const MpiBackendOptions &options) {
  constexpr int64_t maxChunk = int64_t(1) << 30, minChunk = 64;
  if (options.threadsPerRank < 1)
    return Status::failed("expected at least 1 thread per rank, got " +
                          std::to_string(options.threadsPerRank));
  if (options.chunkBytes < minChunk || options.chunkBytes > maxChunk)
    return Status::failed("expected messages of " + std::to_string(minChunk) +
                          " to " + std::to_string(maxChunk) + " bytes, got " +
                          std::to_string(options.chunkBytes));
  if (options.stagingBytes < 0)
    return Status::failed("expected staging memory of at least 0 bytes, got " +
                          std::to_string(options.stagingBytes));
  if (!(options.graceSeconds >= 0 && options.graceSeconds < 1e6))
    return Status::failed("expected a grace of at least 0 seconds, got " +
                          std::to_string(options.graceSeconds));
  return Status::ok();
}

} // namespace

Result<std::unique_ptr<Backend>>
createMpiBackend(const LaunchInfo &launch, const MpiBackendOptions &options) {
  if (Status s = checkOptions(options))
    return s;
  if (Status s = checkConnected(launch))
    return s;
  // MPI can be initialised once in a process's life.
  static std::atomic<bool> isTaken{false};
  if (isTaken.exchange(true))
    return Status::failed("expected one mpi backend per process, got a second");
  Result<MpiLibrary> library = MpiLibrary::open();
  if (!library.isOk())
    return library.status();
  auto backend = std::make_unique<MpiBackend>(*library, launch, options);
  if (Status s = backend->start())
    return s;
  return Result<std::unique_ptr<Backend>>(std::move(backend));
}

} // namespace fsdp::rt
