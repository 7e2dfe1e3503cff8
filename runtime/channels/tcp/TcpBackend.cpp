//===- TcpBackend.cpp - Ranks are processes that connect by TCP -----------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "channels/tcp/TcpBackend.h"

#include "channels/tcp/TcpChannel.h"
#include "channels/tcp/TcpControl.h"
#include "channels/tcp/TcpJob.h"
#include "core/Group.h"
#include "core/Printable.h"

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <map>
#include <utility>
#include <vector>

namespace fsdp::rt {

namespace {

class TcpWorld final : public World {
public:
  TcpWorld(TcpJob &job, TcpControl &control, const LaunchInfo &launch,
           int64_t waitLimit)
      : job_(job), control_(control), launch_(launch), waitLimit_(waitLimit) {}

  int rank() const override { return launch_.rank; }
  int size() const override { return launch_.size; }
  int localRank() const override { return launch_.localRank; }
  int localSize() const override { return launch_.localSize; }
  bool hasLink() const override { return launch_.localSize < launch_.size; }
  int64_t waitLimit() const override { return waitLimit_; }
  void abort(const Status &why) override { control_.abort(why); }
  Status failure() override { return control_.failure(); }

  Result<std::unique_ptr<hal::HostChannel>>
  openChannel(const std::vector<int> &ranks, ThreadPool *pool) override {
    Result<int> place = placeInGroup(ranks, rank(), size());
    if (!place.isOk())
      return place.status();
    if (Status s = job_.reserve(int64_t(ranks.size()) - 1))
      return s;
    std::unique_ptr<hal::HostChannel> made = std::make_unique<TcpChannel>(
        job_, control_, ranks, *place, created_[ranks]++, pool, waitLimit_);
    return Result<std::unique_ptr<hal::HostChannel>>(std::move(made));
  }

private:
  TcpJob &job_;
  TcpControl &control_;
  const LaunchInfo &launch_;
  int64_t waitLimit_;
  /// How many channels this rank has opened over the same ranks; of the job,
  /// since connections of an earlier run may still be under way.
  std::map<std::vector<int>, int> created_;
};

/// Where the launcher has not told a rank's place on its host, the ranks of one
/// host have them in their order.
LaunchInfo withLocalPlace(LaunchInfo launch, const TcpJob &job) {
  if (!launch.hasLocalRank)
    launch.localRank = job.localRank();
  if (!launch.hasLocalSize)
    launch.localSize = job.localSize();
  return launch;
}

class TcpBackend final : public Backend {
public:
  TcpBackend(const LaunchInfo &launch, TcpJob job,
             const TcpBackendOptions &options)
      : launch_(withLocalPlace(launch, job)), job_(std::move(job)),
        control_(job_, options.graceSeconds),
        world_(job_, control_, launch_, options.waitLimit) {}
  Status start() { return control_.start(); }

  std::string name() const override { return "tcp"; }
  bool reportsFailure() const override {
    return launch_.rank == 0 || control_.hasLostRankZero();
  }

  Status run(const std::function<Status(World &)> &body) override {
    Status status = control_.beginRun();
    if (status)
      return status;
    try {
      status = body(world_);
    } catch (const std::exception &error) {
      status = Status::internal(std::string("unexpected exception: ") +
                                error.what());
    }
    return control_.endRun(status);
  }

private:
  LaunchInfo launch_;
  TcpJob job_;
  mutable TcpControl control_;
  TcpWorld world_;
};

/// What the user says of both waits, if anything.
Status readSeconds(TcpBackendOptions &options) {
  const char *text = std::getenv(connectTimeoutVariable);
  if (!text || !*text)
    return Status::ok();
  char *end = nullptr;
  double seconds = std::strtod(text, &end);
  if (end == text || *end || !(seconds > 0 && seconds < 1e6))
    return Status::failed(
        std::string("environment: expected ") + connectTimeoutVariable +
        " to be a number of seconds above 0, got '" + text + "'");
  options.connectSeconds = options.reachSeconds = seconds;
  return Status::ok();
}

Status checkLaunch(const LaunchInfo &launch) {
  return findMeetingPoint(currentEnvironment(), launch)
      .status()
      .withContext("the tcp backend");
}

Result<std::unique_ptr<Backend>> create(const BackendRequest &request) {
  if (request.link)
    return Status::failed("--link: expected the local backend, got tcp");
  Result<MeetingPoint> point =
      findMeetingPoint(currentEnvironment(), request.launch);
  if (!point.isOk())
    return point.status().withContext("the tcp backend");
  TcpBackendOptions options;
  if (Status s = readSeconds(options))
    return s;
  options.tell = [](const std::string &line) {
    std::fprintf(stderr, "note: %s\n", printable(line).c_str());
  };
  // A later backend of this process, or a process that it starts, has no such
  // socket.
  (void)unsetenv(listenerVariable);
  options.waitLimit = request.waitLimit;
  return createTcpBackend(request.launch, *point, options);
}

} // namespace

Result<std::unique_ptr<Backend>>
createTcpBackend(const LaunchInfo &launch, const MeetingPoint &point,
                 const TcpBackendOptions &options) {
  Result<TcpJob> job = TcpJob::meet(launch, point, options.connectSeconds,
                                    options.tell, options.reachSeconds);
  if (!job.isOk())
    return job.status();
  auto backend = std::make_unique<TcpBackend>(launch, std::move(*job), options);
  if (Status s = backend->start())
    return s;
  return Result<std::unique_ptr<Backend>>(std::move(backend));
}

static Result<int> relaunch(int ranks, char *const *argv) {
  return launchProcesses(ranks, argv);
}

const BackendKind tcpBackend = {"tcp", /*isRankPerProcess=*/true, checkLaunch,
                                create, relaunch};

} // namespace fsdp::rt
