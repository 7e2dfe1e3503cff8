//===- HostCopyTest.cpp - Copies between a rank's arenas ------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FunctionStep.h"
#include "channels/local/LocalBackend.h"
#include "core/Clock.h"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <optional>

namespace {

using namespace fsdp::rt;
using fsdp::test::inOrder;
using fsdp::test::runStep;
using fsdp::test::TestRank;
using fsdp::test::TestRankOptions;

constexpr int64_t arenaBytes = 1 << 16, hostBytes = 1 << 14, bytes = 4096;

using Body = std::function<Status(TestRank &)>;

/// @body on each of two ranks, whose copies run on queues where @threads says
/// of what kind, else as calls.
Status run(std::optional<QueueThreads> threads, const Body &body,
           double linkBytesPerSecond = 0) {
  LocalBackendOptions local;
  local.ranks = 2;
  local.linkBytesPerSecond = linkBytesPerSecond;
  auto backend = createLocalBackend(local);
  EXPECT_TRUE(backend.isOk());
  return (*backend)->run([&](World &world) -> Status {
    TestRankOptions options;
    options.arenaBytes = arenaBytes;
    options.hostBytes = hostBytes;
    options.groups = {{0, 1}};
    if (threads) {
      options.events = 2;
      options.queues = {FSDP_RT_QUEUE_D2H, FSDP_RT_QUEUE_H2D};
      options.queueThreads = *threads;
    }
    auto context = TestRank::create(world, options);
    return context.isOk() ? body(**context) : context.status();
  });
}

const fsdp_rt_host_copy_desc out = {"offload", 0, 256, bytes},
                             back = {"reload", 256, 8192, bytes};
const fsdp_rt_host_copy_desc *const outParts[] = {&out}, *const backParts[] = {
                                                             &back};
const int64_t afterOut[] = {0};

fsdp_rt_start_desc startOut() {
  return {"offload",       outParts,          1,      nullptr, 0, 0,
          FSDP_RT_OFFLOAD, FSDP_RT_QUEUE_D2H, nullptr};
}
fsdp_rt_start_desc startBack() {
  return {"reload",       backParts,         1,      afterOut, 1, 1,
          FSDP_RT_RELOAD, FSDP_RT_QUEUE_H2D, nullptr};
}

int32_t copyBoth(fsdp_rt_context *ctx) {
  int32_t code = inOrder(ctx, FSDP_RT_OFFLOAD, &out);
  return code ? code : inOrder(ctx, FSDP_RT_RELOAD, &back);
}

int32_t startBoth(fsdp_rt_context *ctx) {
  static const fsdp_rt_start_desc starts[] = {startOut(), startBack()};
  static const fsdp_rt_wait_desc waits[] = {{"offload", 0}, {"reload", 1}};
  for (const fsdp_rt_start_desc &start : starts)
    if (int32_t code = fsdp_rt_start(ctx, &start))
      return code;
  for (const fsdp_rt_wait_desc &wait : waits)
    if (int32_t code = fsdp_rt_wait(ctx, &wait))
      return code;
  return 0;
}

TEST(HostCopy, BringsBackWhatItTook) {
  for (std::optional<QueueThreads> threads :
       {std::optional<QueueThreads>(), std::optional(QueueThreads::On),
        std::optional(QueueThreads::Off)}) {
    Status status = run(threads, [&](TestRank &context) -> Status {
      for (int step = 1; step <= 3; ++step) {
        std::memset(context.arena(), step, bytes);
        if (Status s = runStep(context, threads ? startBoth : copyBoth))
          return s;
        for (int64_t i = 0; i < bytes; ++i)
          EXPECT_EQ(context.arena()[8192 + i], step);
      }
      EXPECT_EQ(context.counters().offloads.calls, 3);
      EXPECT_EQ(context.counters().offloads.bytes, 3 * bytes);
      EXPECT_EQ(context.counters().reloads.bytes, 3 * bytes);
      EXPECT_EQ(context.executor().device().memory(FSDP_RT_HOST).size(),
                hostBytes);
      return Status::ok();
    });
    EXPECT_TRUE(status.isOk()) << status.message();
  }
}

TEST(HostCopy, CrossesALinkInEachDirection) {
  for (bool isStarted : {false, true}) {
    Status status = run(
        isStarted ? std::optional(QueueThreads::On) : std::nullopt,
        [&](TestRank &context) -> Status {
          int64_t begin = nowNanoseconds();
          if (Status s = runStep(context, isStarted ? startBoth : copyBoth))
            return s;
          // 4096 bytes there and back at a megabyte per second.
          EXPECT_GE(nowNanoseconds() - begin, 8'192'000);
          return Status::ok();
        },
        1e6);
    EXPECT_TRUE(status.isOk()) << status.message();
  }
}

void expectRefused(std::optional<QueueThreads> threads, const char *part,
                   const fsdp::test::Step &step) {
  Status status =
      run(threads, [&](TestRank &context) { return runStep(context, step); });
  EXPECT_FALSE(status.isOk());
  EXPECT_NE(status.message().find(part), std::string::npos) << status.message();
}

TEST(HostCopy, RefusesWhatIsOutsideOfItsArenas) {
  constexpr const char *message =
      "expected operands inside the arena of 65536 bytes and the host's of "
      "16384, got src";
  for (fsdp_rt_host_copy_desc desc :
       {fsdp_rt_host_copy_desc{"x", arenaBytes - 1, 0, 2},
        {"x", 0, hostBytes, 1},
        {"x", -1, 0, 1},
        {"x", 0, -1, 1},
        {"x", 0, 0, -1}})
    expectRefused(std::nullopt, message, [&](fsdp_rt_context *ctx) {
      return inOrder(ctx, FSDP_RT_OFFLOAD, &desc);
    });
  // The host's side is the other one.
  fsdp_rt_host_copy_desc desc = {"x", hostBytes, 0, 1};
  expectRefused(std::nullopt, message, [&](fsdp_rt_context *ctx) {
    return inOrder(ctx, FSDP_RT_RELOAD, &desc);
  });
  const fsdp_rt_host_copy_desc *parts[] = {&desc};
  expectRefused(QueueThreads::On, "part 0: expected operands inside",
                [&](fsdp_rt_context *ctx) {
                  fsdp_rt_start_desc start = startBack();
                  start.parts = parts;
                  start.after_count = 0;
                  return fsdp_rt_start(ctx, &start);
                });
}

TEST(HostCopy, RefusesOtherQueuesAndCalls) {
  expectRefused(QueueThreads::On, "expected a queue of offload, got h2d",
                [](fsdp_rt_context *ctx) {
                  fsdp_rt_start_desc start = startOut();
                  start.queue = FSDP_RT_QUEUE_H2D;
                  return fsdp_rt_start(ctx, &start);
                });
  for (int32_t kind : {-1, numTransferKinds})
    expectRefused(QueueThreads::On, "expected a kind of transfer, got",
                  [=](fsdp_rt_context *ctx) {
                    fsdp_rt_start_desc start = startOut();
                    start.kind = kind;
                    return fsdp_rt_start(ctx, &start);
                  });
  expectRefused(QueueThreads::On, "got the computation's", copyBoth);
  // Nobody waits in the order of the computation.
  for (int isEvent : {0, 1})
    expectRefused(std::nullopt, "expected no events of a transfer in the order",
                  [&](fsdp_rt_context *ctx) {
                    fsdp_rt_start_desc start = startOut();
                    start.queue = FSDP_RT_QUEUE_COMPUTE;
                    start.event = isEvent - 1;
                    start.after = afterOut;
                    start.after_count = 1 - isEvent;
                    return fsdp_rt_start(ctx, &start);
                  });
  // No queue of this program runs collectives.
  expectRefused(
      QueueThreads::On, "expected a queue of all_gather, got d2h",
      [](fsdp_rt_context *ctx) {
        fsdp_rt_collective_desc part = {};
        part.divisor = 1;
        const fsdp_rt_collective_desc *parts[] = {&part};
        fsdp_rt_start_desc start = {
            "gather",          parts,  1, nullptr, 0, 0, FSDP_RT_ALL_GATHER,
            FSDP_RT_QUEUE_D2H, nullptr};
        return fsdp_rt_start(ctx, &start);
      });
}

TEST(HostCopy, ArenasMustFitTheHost) {
  LocalBackendOptions local;
  auto backend = createLocalBackend(local);
  ASSERT_TRUE(backend.isOk());
  Status status = (*backend)->run([](World &world) -> Status {
    TestRankOptions options;
    options.hostBytes = -1;
    return TestRank::create(world, options).status();
  });
  EXPECT_NE(status.message().find("an arena of the host of 0 to"),
            std::string::npos)
      << status.message();
}

} // namespace
