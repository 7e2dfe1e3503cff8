//===- Backends.cpp - The backend under test ------------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Backends.h"

#include "channels/local/LocalBackend.h"
#include "channels/mpi/MpiBackend.h"
#include "channels/tcp/TcpBackend.h"

#include <cstdlib>
#include <numeric>

namespace fsdp::test {

using rt::Backend;
using rt::Result;
using rt::Status;
using rt::World;

namespace {

rt::MpiBackendOptions &mpiOptions() {
  static rt::MpiBackendOptions options;
  return options;
}

std::unique_ptr<Backend> &jobSlot() {
  static std::unique_ptr<Backend> backend;
  return backend;
}

Result<std::unique_ptr<Backend>> createJobBackend() {
  rt::Environment environment = rt::currentEnvironment();
  Result<rt::LaunchInfo> launch = rt::detectLaunch(environment);
  if (!launch.isOk())
    return launch.status();
  // Failures are to end soon where a rank does not come to its end.
  constexpr double graceSeconds = 3;
  if (launch->canUseMpi) {
    mpiOptions().graceSeconds = graceSeconds;
    return rt::createMpiBackend(*launch, mpiOptions());
  }
  Result<rt::MeetingPoint> point = rt::findMeetingPoint(environment, *launch);
  if (!point.isOk())
    return point.status();
  rt::TcpBackendOptions options;
  options.graceSeconds = graceSeconds;
  return rt::createTcpBackend(*launch, *point, options);
}

} // namespace

std::vector<BackendCase> backendCases() {
  rt::Result<rt::LaunchInfo> launch =
      rt::detectLaunch(rt::currentEnvironment());
  if (launch.isOk() && (launch->canUseMpi || launch->size > 1))
    return {{true, launch->size}};
  std::vector<BackendCase> cases;
  for (int ranks : {1, 2, 3, 4, 5, 8})
    cases.push_back({false, ranks});
  return cases;
}

void setMpiSizes(int64_t chunkBytes, int64_t stagingBytes) {
  mpiOptions().chunkBytes = chunkBytes;
  mpiOptions().stagingBytes = stagingBytes;
}

int64_t largeBytes() { return mpiOptions().chunkBytes * 5 / 2 + 13; }

Result<Backend *> jobBackend() {
  if (!jobSlot()) {
    Result<std::unique_ptr<Backend>> backend = createJobBackend();
    if (!backend.isOk())
      return backend.status();
    jobSlot() = std::move(*backend);
  }
  return jobSlot().get();
}

void endJob() { jobSlot().reset(); }

Status runLocally(int ranks, const std::function<Status(World &)> &body) {
  rt::LocalBackendOptions options;
  options.ranks = ranks;
  Result<std::unique_ptr<Backend>> backend = rt::createLocalBackend(options);
  if (!backend.isOk())
    return backend.status();
  return (*backend)->run(body);
}

Status runOn(const BackendCase &backend,
             const std::function<Status(World &)> &body) {
  if (!backend.isJob)
    return runLocally(backend.ranks, body);
  Result<Backend *> job = jobBackend();
  return job.isOk() ? (*job)->run(body) : job.status();
}

std::string whyBitsVary(const BackendCase &backend) {
  std::string why;
  Status status = runOn(backend, [&](World &world) -> Status {
    auto channel = world.openChannel(allRanks(world));
    if (!channel.isOk())
      return channel.status();
    rt::hal::Numerics numerics = (*channel)->numerics();
    if (world.rank() != 0 || numerics.hasFixedBits())
      return Status::ok();
    using Order = rt::hal::Numerics::Order;
    why = numerics.order == Order::Unordered ? "sums are added up in any order"
                                             : "sums are rounded at every hop";
    return Status::ok();
  });
  return status.isOk() ? why : status.message();
}

std::vector<int> allRanks(const World &world) {
  std::vector<int> ranks(static_cast<size_t>(world.size()));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

std::vector<int> rowOf(const World &world, int columns) {
  std::vector<int> ranks(static_cast<size_t>(columns));
  std::iota(ranks.begin(), ranks.end(), world.rank() / columns * columns);
  return ranks;
}

std::vector<int> columnOf(const World &world, int columns) {
  std::vector<int> ranks;
  for (int rank = world.rank() % columns; rank < world.size(); rank += columns)
    ranks.push_back(rank);
  return ranks;
}

} // namespace fsdp::test
