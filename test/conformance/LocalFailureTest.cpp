//===- LocalFailureTest.cpp - Failures of rank threads --------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Backends.h"
#include "Checks.h"
#include "channels/local/LocalBackend.h"
#include "core/Clock.h"
#include "core/ThreadPool.h"
#include "core/WaitLimit.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <stdexcept>
#include <thread>

namespace fsdp::test {
namespace {

using rt::Status;
using rt::World;
using rt::hal::HostChannel;

/// Runs `body` with a channel over all ranks.
Status runOnAll(int ranks,
                const std::function<Status(World &, HostChannel &)> &body) {
  return runLocally(ranks, [&](World &world) -> Status {
    auto group = world.openChannel(allRanks(world));
    return group.isOk() ? body(world, **group) : group.status();
  });
}

Status reduceForever(HostChannel &group) {
  float value = 1;
  while (true)
    if (Status s = group.allReduce(&value, &value, 1, FSDP_RT_F32, 1))
      return s;
}

TEST(LocalFailure, FirstReasonReachesEveryRank) {
  for (int ranks : {2, 3, 8}) {
    std::vector<std::string> seen(static_cast<size_t>(ranks));
    Status status = runOnAll(ranks, [&](World &world, HostChannel &group) {
      for (int i = 0; i < 3; ++i)
        if (Status s = group.barrier())
          return s;
      Status s = world.rank() == 1 ? Status::failed("disk on fire")
                                   : reduceForever(group);
      seen[size_t(world.rank())] = s.message();
      return s;
    });
    EXPECT_EQ(status.message(), "rank 1: disk on fire");
    EXPECT_EQ(status.code(), rt::Code::Failed);
    for (int rank = 0; rank < ranks; ++rank)
      EXPECT_EQ(seen[size_t(rank)],
                rank == 1 ? "disk on fire" : "rank 1: disk on fire");
  }
}

/// Whoever waits longer than the limit makes the program fail, and names who
/// has not come; a wait that ends before is none of its business.
TEST(LocalFailure, ARankThatDoesNotCome) {
  rt::LocalBackendOptions options;
  options.ranks = 3;
  options.waitLimit = 1'000'000'000;
  auto backend = rt::createLocalBackend(options);
  ASSERT_TRUE(backend.isOk());
  for (int seconds : {0, 4}) {
    Status status = (*backend)->run([&](World &world) -> Status {
      EXPECT_EQ(world.waitLimit(), options.waitLimit);
      auto group = world.openChannel(allRanks(world));
      for (int i = 0; i < 3; ++i)
        if (Status s = (*group)->barrier())
          return s;
      if (world.rank() == 1)
        std::this_thread::sleep_for(std::chrono::seconds(seconds));
      return (*group)->barrier();
    });
    const std::string &message = status.message();
    EXPECT_EQ(status.isOk(), seconds == 0) << message;
    if (seconds > 0)
      EXPECT_NE(message.find("expected rank 1 in the barrier in which rank "),
                std::string::npos)
          << message;
  }
}

/// A process that is stopped and goes on does not count its own pause.
TEST(LocalFailure, PausesOfTheProcessItself) {
  rt::WaitLimit limit(2'500'000'000);
  std::this_thread::sleep_for(std::chrono::seconds(3));
  EXPECT_FALSE(limit.isExceeded());
  std::this_thread::sleep_for(std::chrono::seconds(1));
  EXPECT_TRUE(limit.isExceeded());
  limit.restart();
  EXPECT_FALSE(limit.isExceeded());
}

TEST(LocalFailure, ASingleRankNeedsNoNumber) {
  Status status =
      runLocally(1, [](World &) { return Status::internal("odd"); });
  EXPECT_EQ(status.message(), "odd");
  EXPECT_EQ(status.code(), rt::Code::Internal);
}

TEST(LocalFailure, ExceptionsBecomeFailures) {
  Status status = runOnAll(3, [](World &world, HostChannel &group) {
    if (world.rank() == 2)
      throw std::runtime_error("surprise");
    return reduceForever(group);
  });
  EXPECT_EQ(status.code(), rt::Code::Internal);
  EXPECT_NE(status.message().find("rank 2: unexpected exception: surprise"),
            std::string::npos)
      << status.message();
}

TEST(LocalFailure, AbortFromAnotherThreadWakesEverybody) {
  Status status = runOnAll(4, [](World &world, HostChannel &group) {
    if (world.rank() != 3)
      return reduceForever(group);
    std::thread other([&] { world.abort(Status::failed("enough")); });
    other.join();
    // The rank itself fails in its next call, too.
    return group.barrier();
  });
  EXPECT_EQ(status.message(), "rank 3: enough");
}

TEST(LocalFailure, AbortIsIdempotentAndNeedsAReason) {
  Status status = runLocally(2, [](World &world) {
    if (world.rank() == 0) {
      world.abort(Status::ok());
      world.abort(Status::failed("too late"));
    }
    return Status::ok();
  });
  EXPECT_EQ(status.message(), "rank 0: aborted without a reason");
}

TEST(LocalFailure, WaitingForARankThatHasEndedFails) {
  Status status = runOnAll(3, [](World &world, HostChannel &group) {
    return world.rank() == 0 ? Status::ok() : group.barrier();
  });
  EXPECT_NE(status.message().find("expected rank 0 in the barrier"),
            std::string::npos)
      << status.message();
}

TEST(LocalFailure, AGroupThatOneRankNeverMakesFails) {
  Status status = runLocally(2, [](World &world) -> Status {
    if (world.rank() == 0)
      return Status::ok();
    auto group = world.openChannel({0, 1});
    if (!group.isOk())
      return group.status();
    return (*group)->barrier();
  });
  EXPECT_NE(status.message().find("expected rank 0 in the barrier"),
            std::string::npos)
      << status.message();
}

TEST(LocalFailure, DifferentCollectivesAreNamed) {
  Status status = runOnAll(2, [](World &world, HostChannel &group) {
    std::vector<char> buffer(64);
    return world.rank() == 0
               ? group.allGather(buffer.data(), buffer.data(), 8)
               : group.broadcast(buffer.data(), buffer.data(), 16, 1);
  });
  EXPECT_EQ(status.code(), rt::Code::Internal);
  for (const char *part : {"all_gather of 8 x U8 on rank 0",
                           "broadcast of 16 x U8 from root 1 on rank 1"})
    EXPECT_NE(status.message().find(part), std::string::npos)
        << status.message();
}

TEST(LocalFailure, DifferentSizesAreNamed) {
  Status status = runOnAll(3, [](World &world, HostChannel &group) {
    std::vector<float> buffer(64);
    int64_t count = world.rank() == 2 ? 3 : 4;
    return group.reduceScatter(buffer.data(), buffer.data(), count, FSDP_RT_F32,
                               2);
  });
  EXPECT_NE(status.message().find("4 x F32 / 2 on rank 0 and reduce_scatter of "
                                  "3 x F32 / 2 on rank 2"),
            std::string::npos)
      << status.message();
}

TEST(LocalFailure, NobodyReadsMemoryOfARankThatLeft) {
  // Every rank owns its buffers during one attempt only; under a sanitizer a
  // late reader would be caught.
  for (int attempt = 0; attempt < 30; ++attempt) {
    Status status = runOnAll(4, [&](World &world, HostChannel &group) {
      std::vector<float> src(30000, 1), dst(30000);
      for (int i = 0;; ++i) {
        if (world.rank() == attempt % 4 && i == attempt % 7)
          return Status::failed("leaves");
        if (Status s =
                group.allReduce(src.data(), dst.data(), 30000, FSDP_RT_F32, 1))
          return s;
        if (Status s = group.reduceScatter(src.data(), dst.data(), 7500,
                                           FSDP_RT_F32, 1))
          return s;
      }
    });
    EXPECT_NE(status.message().find("leaves"), std::string::npos);
  }
}

TEST(LocalFailure, RunsAgainAfterAFailure) {
  rt::LocalBackendOptions options;
  options.ranks = 3;
  auto backend = rt::createLocalBackend(options);
  ASSERT_TRUE(backend.isOk());
  auto once = [](World &world) -> Status {
    auto group = world.openChannel(allRanks(world));
    return group.isOk() ? (*group)->barrier() : group.status();
  };
  EXPECT_FALSE(
      (*backend)->run([](World &) { return Status::failed("no"); }).isOk());
  EXPECT_TRUE((*backend)->run(once).isOk());
  EXPECT_TRUE((*backend)->reportsFailure());
  EXPECT_EQ((*backend)->name(), "local");
}

TEST(LocalBackend, RefusesImpossibleOptions) {
  auto refuses = [](int ranks, int threads, double bandwidth, double latency) {
    rt::LocalBackendOptions options;
    options.ranks = ranks;
    options.threadsPerRank = threads;
    options.linkBytesPerSecond = bandwidth;
    options.linkLatencySeconds = latency;
    return !rt::createLocalBackend(options).isOk();
  };
  EXPECT_FALSE(refuses(1, 1, 0, 0));
  EXPECT_TRUE(refuses(0, 1, 0, 0));
  EXPECT_TRUE(refuses(-3, 1, 0, 0));
  EXPECT_TRUE(refuses(1 << 20, 1, 0, 0));
  EXPECT_TRUE(refuses(1, 0, 0, 0));
  EXPECT_TRUE(refuses(1, 1, -1, 0));
  EXPECT_TRUE(refuses(1, 1, 0, NAN));
}

TEST(LocalBackend, ALinkTakesItsTime) {
  rt::LocalBackendOptions options;
  options.ranks = 2;
  options.linkBytesPerSecond = 1e6;
  options.linkLatencySeconds = 1e-3;
  auto backend = rt::createLocalBackend(options);
  ASSERT_TRUE(backend.isOk());
  Status status = (*backend)->run([](World &world) -> Status {
    auto group = world.openChannel(allRanks(world));
    if (!group.isOk())
      return group.status();
    std::vector<char> buffer(40000);
    // 20 000 bytes from the other rank at a megabyte per second.
    int64_t start = rt::nowNanoseconds();
    if (Status s = (*group)->allGather(buffer.data() + world.rank() * 20000,
                                       buffer.data(), 20000))
      return s;
    EXPECT_GE(rt::nowNanoseconds() - start, 21'000'000);
    start = rt::nowNanoseconds();
    if (Status s = (*group)->barrier())
      return s;
    EXPECT_GE(rt::nowNanoseconds() - start, 1'000'000);
    return Status::ok();
  });
  EXPECT_TRUE(status.isOk()) << status.message();
}

TEST(LocalBackend, PoolsOfSeveralThreadsGiveTheSameBits) {
  Status status = runLocally(3, [](World &world) -> Status {
    rt::ThreadPool pool;
    if (Status s = pool.start(3, false))
      return s;
    auto group = world.openChannel(allRanks(world), &pool);
    if (!group.isOk())
      return group.status();
    for (int64_t count : {1000, 200000}) {
      if (Status s =
              checkReduceScatter(**group, FSDP_RT_F32, count, 3, false, 1))
        return s;
      if (Status s = checkAllReduce(**group, FSDP_RT_F64, count, 3, true, 2))
        return s;
      if (Status s = checkAllGather(**group, count * 4, true, 3))
        return s;
      if (Status s = checkBroadcast(**group, count * 4, 2, false, 4))
        return s;
    }
    return Status::ok();
  });
  EXPECT_TRUE(status.isOk()) << status.message();
}

} // namespace
} // namespace fsdp::test
