//===- MpiCases.cpp - Programs that fail under mpirun ---------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "MpiCases.h"

#include "Backends.h"
#include "Checks.h"
#include "FunctionStep.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <fstream>
#include <functional>
#include <limits>
#include <stdexcept>
#include <thread>

namespace fsdp::test {

using rt::Status;
using rt::World;
using rt::hal::HostChannel;

namespace {

volatile sig_atomic_t isInterrupted = 0;

/// `times` collectives on buffers that go away with the caller.
Status reduce(HostChannel &group, int64_t count, int times) {
  std::vector<float> src(static_cast<size_t>(count), 1), dst(src.size());
  for (int i = 0; i < times; ++i)
    if (Status s =
            group.allReduce(src.data(), dst.data(), count, FSDP_RT_F32, 1))
      return s;
  return Status::ok();
}

Status reduceForever(HostChannel &group, int64_t count) {
  return reduce(group, count, std::numeric_limits<int>::max());
}

Status waitForInterrupt(World &world, HostChannel &group,
                        const std::string &directory) {
  signal(SIGINT, [](int) { isInterrupted = 1; });
  if (Status s = group.barrier())
    return s;
  if (world.rank() == 0)
    std::ofstream(directory + "/ready") << "ready\n";
  // Steps until all ranks know of the signal.
  int32_t stop = 0;
  while (stop < world.size()) {
    int32_t mine = isInterrupted;
    if (Status s = group.allReduce(&mine, &stop, 1, FSDP_RT_I32, 1))
      return s;
    usleep(1000);
  }
  if (world.rank() == 0)
    std::printf("ended after the step\n");
  return Status::ok();
}

/// Steps that have transfers under way, until one fails. In its third, the last
/// rank calls `last` before it comes to a transfer that the others wait for;
/// or, where there is none, fails a check.
Status stepForever(World &world, const std::function<void()> &last) {
  constexpr int64_t bytes = 1 << 20, flag = 8 * bytes - 1;
  TestRankOptions options;
  options.arenaBytes = 8 * bytes;
  options.groups = {allRanks(world)};
  options.events = 2;
  options.queues = {FSDP_RT_QUEUE_ALL_GATHER, FSDP_RT_QUEUE_REDUCE};
  options.queueThreads = rt::QueueThreads::On;
  auto context = TestRank::create(world, options);
  if (!context.isOk())
    return context.status();
  bool isLast = world.rank() == world.size() - 1;
  (*context)->arena()[flag] = 1;
  fsdp_rt_collective_desc gather = {"gather", 0, bytes,     bytes,
                                    1,        0, FSDP_RT_U8};
  fsdp_rt_collective_desc sum = {"sum", 5 * bytes, 6 * bytes,  bytes / 4,
                                 1,     0,         FSDP_RT_F32};
  const fsdp_rt_collective_desc *parts[] = {&gather, &sum};
  fsdp_rt_start_desc starts[] = {
      {"gather", &parts[0], 1, nullptr, 0, 0, FSDP_RT_ALL_GATHER,
       FSDP_RT_QUEUE_ALL_GATHER, nullptr},
      {"sum", &parts[1], 1, nullptr, 0, 1, FSDP_RT_ALL_REDUCE,
       FSDP_RT_QUEUE_REDUCE, nullptr}};
  fsdp_rt_wait_desc waits[] = {{"gather", 0}, {"sum", 1}};
  fsdp_rt_check_desc check = {"disk on fire", flag};
  int64_t steps = 0;
  auto disturb = [&](char *arena) {
    if (!isLast || ++steps < 3)
      return;
    if (last)
      last();
    else
      arena[flag] = 0;
  };
  Step step = [&](fsdp_rt_context *ctx) {
    return fsdp_rt_start(ctx, &starts[0]) || computeIn(ctx, disturb) ||
           fsdp_rt_check(ctx, &check) || fsdp_rt_start(ctx, &starts[1]) ||
           fsdp_rt_wait(ctx, &waits[1]) || fsdp_rt_wait(ctx, &waits[0]);
  };
  while (true)
    if (Status s = runStep(**context, step))
      return s;
}

Status body(const std::string &name, const std::string &directory,
            World &world) {
  auto made = world.openChannel(allRanks(world));
  if (!made.isOk())
    return made.status();
  HostChannel &group = **made;
  bool isLast = world.rank() == world.size() - 1;
  constexpr int64_t large = 3'000'000;
  if (Status s = checkAllReduce(group, FSDP_RT_F32, 100, 1, true, 1))
    return s;
  if (name == "good")
    return Status::ok();
  if (name == "fail")
    return isLast ? Status::failed("disk on fire") : reduceForever(group, 1);
  if (name == "fail-large") {
    if (!isLast)
      return reduceForever(group, large);
    if (Status s = reduce(group, large, 3))
      return s;
    return Status::failed("disk on fire");
  }
  if (name == "queues-fail")
    return stepForever(world, nullptr);
  if (name == "queues-abort")
    return stepForever(world, [&] {
      // The others wait for a transfer that this rank comes to too late.
      usleep(50'000);
      std::thread other([&] { world.abort(Status::failed("enough")); });
      other.join();
    });
  if (name == "queues-kill")
    return stepForever(world, [] { raise(SIGKILL); });
  if (name == "fail-all")
    return Status::failed("params.safetensors: truncated");
  if (name == "abort") {
    std::thread other;
    if (isLast)
      other = std::thread([&] {
        usleep(50'000);
        world.abort(Status::failed("enough"));
      });
    Status status = reduceForever(group, large);
    if (other.joinable())
      other.join();
    return status;
  }
  if (name == "throw") {
    if (isLast)
      throw std::runtime_error("surprise");
    return reduceForever(group, 1);
  }
  if (name == "leave")
    return isLast ? Status::ok() : group.barrier();
  if (name == "leave-early") {
    if (isLast)
      return Status::ok();
    // One that the last rank has never heard of.
    for (int i = 0; i < 100; ++i) {
      made = world.openChannel(allRanks(world));
      if (!made.isOk())
        return made.status();
    }
    return (*made)->barrier();
  }
  if (name == "mismatch") {
    std::vector<char> buffer(4096);
    return isLast ? group.broadcast(buffer.data(), buffer.data(), 16, 0)
                  : group.allGather(buffer.data(), buffer.data() + 2048, 8);
  }
  if (name == "stuck") {
    if (isLast)
      return Status::failed("disk on fire");
    while (true)
      usleep(100'000);
  }
  if (name == "kill") {
    if (isLast) {
      if (Status s = reduce(group, large, 3))
        return s;
      raise(SIGKILL);
    }
    return reduceForever(group, large);
  }
  if (name == "interrupt")
    return waitForInterrupt(world, group, directory);
  return Status::internal("no case '" + name + "'");
}

} // namespace

int runMpiCase(const std::string &name, const std::string &directory) {
  rt::Result<rt::Backend *> backend = jobBackend();
  if (!backend.isOk()) {
    std::fprintf(stderr, "error: %s\n", backend.status().message().c_str());
    return static_cast<int>(backend.status().code());
  }
  Status status = (*backend)->run(
      [&](World &world) { return body(name, directory, world); });
  if (status && (*backend)->reportsFailure())
    std::fprintf(stderr, "error: %s\n", status.message().c_str());
  endJob();
  return static_cast<int>(status.code());
}

} // namespace fsdp::test
