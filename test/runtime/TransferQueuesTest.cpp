//===- TransferQueuesTest.cpp - Collectives beside computation ------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "devices/cpu/TransferQueues.h"
#include "FunctionStep.h"
#include "channels/local/LocalBackend.h"
#include "channels/local/SharedLink.h"
#include "core/Clock.h"
#include "core/Host.h"
#include "trace/Trace.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>

#include <nlohmann/json.hpp>

namespace {

using namespace fsdp::rt;
using fsdp::test::compute;
using fsdp::test::inOrder;
using fsdp::test::runStep;
using fsdp::test::Step;
using fsdp::test::TestRank;
using fsdp::test::TestRankOptions;
using fsdp::test::waitFor;
using Json = nlohmann::json;

constexpr int64_t arenaBytes = 1 << 20, flagAt = arenaBytes - 1;
constexpr int64_t srcAt = 0, dstAt = 1 << 17, extraAt = 1 << 18;
constexpr int64_t count = 1000, milli = 1'000'000;
constexpr int64_t numEvents = 4;

/// Runs `body` on each rank with a context that has all queues, over links of
/// this bandwidth and latency. A machine of any size gives the queues threads.
Status onContexts(
    int ranks, const std::function<Status(TestRank &)> &body,
    double bandwidth = 0, double latency = 0,
    const std::function<QueueThreads(int rank)> &queueThreads = [](int) {
      return QueueThreads::On;
    }) {
  LocalBackendOptions backendOptions;
  backendOptions.ranks = ranks;
  backendOptions.linkBytesPerSecond = bandwidth;
  backendOptions.linkLatencySeconds = latency;
  auto backend = createLocalBackend(backendOptions);
  if (!backend.isOk())
    return backend.status();
  return (*backend)->run([&](World &world) -> Status {
    TestRankOptions options;
    options.arenaBytes = arenaBytes;
    options.groups.resize(2);
    for (int rank = 0; rank < ranks; ++rank)
      options.groups[0].push_back(rank);
    options.groups[1] = {world.rank()};
    options.events = numEvents;
    options.queues = {FSDP_RT_QUEUE_ALL_GATHER, FSDP_RT_QUEUE_REDUCE,
                      FSDP_RT_QUEUE_ALL_REDUCE};
    options.queueThreads = queueThreads(world.rank());
    options.profile = true;
    options.traceEvents = 100;
    auto context = TestRank::create(world, options);
    if (!context.isOk())
      return context.status();
    (*context)->arena()[flagAt] = 1;
    return body(**context);
  });
}

fsdp_rt_collective_desc partDesc() {
  fsdp_rt_collective_desc desc = {};
  desc.name = "part";
  desc.src = srcAt;
  desc.dst = dstAt;
  desc.count = count;
  desc.divisor = 1;
  desc.dtype = FSDP_RT_F32;
  return desc;
}

/// A transfer of one part or several.
struct Start {
  explicit Start(int64_t event, int32_t kind = FSDP_RT_ALL_GATHER,
                 int32_t queue = FSDP_RT_QUEUE_ALL_GATHER,
                 std::vector<int64_t> after = {}, int64_t numParts = 1)
      : parts(size_t(numParts), partDesc()), after(std::move(after)) {
    desc.name = "transfer";
    desc.event = event;
    desc.kind = kind;
    desc.queue = queue;
    for (size_t i = 0; i < parts.size(); ++i)
      parts[i].dst += int64_t(i) * (1 << 16);
  }
  /// Of this object where it lies now.
  int32_t operator()(fsdp_rt_context *ctx) {
    pointers.clear();
    for (fsdp_rt_collective_desc &part : parts)
      pointers.push_back(&part);
    desc.parts = pointers.data();
    desc.part_count = int64_t(pointers.size());
    desc.after = after.data();
    desc.after_count = int64_t(after.size());
    return fsdp_rt_start(ctx, &desc);
  }

  std::vector<fsdp_rt_collective_desc> parts;
  std::vector<const fsdp_rt_collective_desc *> pointers;
  std::vector<int64_t> after;
  fsdp_rt_start_desc desc = {};
};

void sleepFor(int64_t milliseconds) {
  std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
}

void expectOk(const Status &status) {
  EXPECT_TRUE(status.isOk()) << status.message();
}

TEST(TransferQueues, NamesOfQueues) {
  for (int32_t queue :
       {FSDP_RT_QUEUE_ALL_GATHER, FSDP_RT_QUEUE_REDUCE,
        FSDP_RT_QUEUE_ALL_REDUCE, FSDP_RT_QUEUE_D2H, FSDP_RT_QUEUE_H2D})
    EXPECT_EQ(queueFromName(queueName(queue)), queue);
  EXPECT_EQ(queueName(0), nullptr);
  EXPECT_EQ(queueName(6), nullptr);
  EXPECT_EQ(queueName(-1), nullptr);
  EXPECT_FALSE(queueFromName("compute").has_value());
}

TEST(TransferQueues, MovesWhatItWasGivenInEveryStep) {
  expectOk(onContexts(3, [](TestRank &context) -> Status {
    auto at = [&](int64_t offset) {
      return reinterpret_cast<float *>(context.arena() + offset);
    };
    int rank = context.world().rank();
    for (int step = 1; step <= 5; ++step) {
      Start gather(0), sum(1, FSDP_RT_ALL_REDUCE, FSDP_RT_QUEUE_REDUCE, {0});
      // The sum of what was gathered: only `after` orders the two.
      sum.parts[0].src = dstAt;
      sum.parts[0].dst = extraAt;
      Status s = runStep(context, [&](fsdp_rt_context *ctx) -> int32_t {
        compute(ctx, [=] {
          for (int64_t i = 0; i < count; ++i)
            at(srcAt)[i] = float(step * 100 + rank);
        });
        if (int32_t rc = gather(ctx))
          return rc;
        if (int32_t rc = sum(ctx))
          return rc;
        int32_t rc = waitFor(ctx, 1);
        return rc ? rc : waitFor(ctx, 0);
      });
      if (s)
        return s;
      EXPECT_EQ(at(dstAt)[2 * count + 7], float(step * 100 + 2));
      EXPECT_EQ(at(extraAt)[7], 3 * float(step * 100));
    }
    return Status::ok();
  }));
}

TEST(TransferQueues, CountsEveryPartOnce) {
  expectOk(onContexts(2, [](TestRank &context) -> Status {
    Start bucket(0, FSDP_RT_ALL_GATHER, FSDP_RT_QUEUE_ALL_GATHER, {}, 3);
    Start sum(2, FSDP_RT_REDUCE_SCATTER, FSDP_RT_QUEUE_REDUCE);
    sum.parts[0].dst = 1 << 19;
    for (int i = 0; i < 2; ++i)
      if (Status s = runStep(context, [&](fsdp_rt_context *ctx) {
            // Waiting twice is no more than waiting.
            return bucket(ctx) || sum(ctx) || waitFor(ctx, 0) ||
                   waitFor(ctx, 2) || waitFor(ctx, 0);
          }))
        return s;
    const Counters &c = context.counters();
    EXPECT_EQ(c.groups[0][FSDP_RT_ALL_GATHER].calls, 6);
    EXPECT_EQ(c.groups[0][FSDP_RT_ALL_GATHER].bytes, 6 * count * 4);
    EXPECT_EQ(c.groups[0][FSDP_RT_REDUCE_SCATTER].calls, 2);
    EXPECT_EQ(c.groups[0][FSDP_RT_REDUCE_SCATTER].bytes, 2 * count * 4);
    for (const StepTimes &t : {c.lastStep, c.allSteps}) {
      EXPECT_GT(t.transfers, 0);
      EXPECT_EQ(t.communication, 0);
      EXPECT_EQ(t.total,
                t.matmul + t.kernels + t.communication + t.waiting + t.other);
    }
    std::vector<ProfileRow> rows = context.profile();
    EXPECT_EQ(rows.size(), 2u);
    for (const ProfileRow &row : rows) {
      bool isWait = row.kind == CallKind::Wait;
      EXPECT_EQ(row.name, isWait ? "arrived" : "transfer");
      EXPECT_EQ(row.calls, isWait ? 6 : 4);
      EXPECT_EQ(row.bytes, isWait ? 0 : 8 * count * 4);
    }
    return Status::ok();
  }));
}

// 2 ranks, 4000 bytes from the other one: 50 ms on this link.
constexpr double slow = 4000 / 0.05;

TEST(TransferQueues, ATransferRunsBesideComputation) {
  // Rank 0 computes until rank 1 has what rank 0 sends: for ever, if it did not
  // send meanwhile.
  std::atomic<bool> hasArrived{false};
  expectOk(onContexts(
      2,
      [&](TestRank &context) -> Status {
        Start gather(0);
        bool isReceiver = context.world().rank() == 1;
        Status s = runStep(context, [&](fsdp_rt_context *ctx) {
          return gather(ctx) ||
                 compute(ctx,
                         [&] {
                           while (!isReceiver && !hasArrived)
                             sleepFor(1);
                         }) ||
                 waitFor(ctx, 0);
        });
        if (isReceiver)
          hasArrived = true;
        EXPECT_GE(context.counters().lastStep.transfers, 50 * milli);
        return s;
      },
      slow));
}

TEST(TransferQueues, WhatComputationDoesNotHideIsWaiting) {
  expectOk(onContexts(
      2,
      [](TestRank &context) -> Status {
        Start gather(0);
        // Time that passes between start and wait is not waiting, and a loaded
        // host may let it pass: the longest of five runs is compared.
        int64_t waiting = 0;
        for (int run = 0; run < 5; ++run) {
          if (Status s = runStep(context, [&](fsdp_rt_context *ctx) {
                return gather(ctx) || waitFor(ctx, 0);
              }))
            return s;
          const StepTimes &t = context.counters().lastStep;
          waiting = std::max(waiting, t.waiting);
          EXPECT_GE(t.transfers, 50 * milli);
          EXPECT_GE(t.total, 50 * milli);
        }
        EXPECT_GE(waiting, 45 * milli);
        return Status::ok();
      },
      slow));
}

TEST(TransferQueues, QueuesShareTheRanksLink) {
  expectOk(onContexts(
      2,
      [](TestRank &context) -> Status {
        Start gather(0), sum(1, FSDP_RT_ALL_REDUCE, FSDP_RT_QUEUE_REDUCE);
        sum.parts[0].dst = extraAt;
        Status s = runStep(context, [&](fsdp_rt_context *ctx) {
          return gather(ctx) || sum(ctx) || waitFor(ctx, 0) || waitFor(ctx, 1);
        });
        EXPECT_GE(context.counters().lastStep.total, 100 * milli);
        return s;
      },
      slow));
}

TEST(LinkShares, AreEvenWhileSeveralAreOnIt) {
  LinkShares link;
  LinkShares::Crossing a, b, c;
  // The second comes when the first has half of its way to go; it is joined by
  // a third when that is over.
  link.begin(a, 0, 40);
  EXPECT_EQ(link.endOf(a), 40);
  link.begin(b, 20, 60);
  // 20 alone, 40 to do the other 20; by then 20 of 60.
  EXPECT_EQ(link.endOf(a), 60);
  EXPECT_EQ(link.endOf(b), 100);
  link.advance(60);
  EXPECT_EQ(a.left, 0);
  EXPECT_EQ(b.left, 40);
  link.end(a);
  // 30 more alone: 50. Then both have 10, and need 20.
  link.begin(c, 90, 10);
  EXPECT_EQ(link.endOf(b), 110);
  EXPECT_EQ(link.endOf(c), 110);
  link.advance(200);
  EXPECT_EQ(b.left, 0);
  EXPECT_EQ(c.left, 0);
  link.end(b);
  link.end(c);
}

TEST(LinkShares, OfAnEmptyLinkAreAllOfIt) {
  LinkShares link;
  for (int64_t from : {0, 5, 100}) {
    LinkShares::Crossing one, none;
    link.begin(one, from, 5);
    EXPECT_EQ(link.endOf(one), from + 5);
    link.begin(none, from + 1, 0);
    EXPECT_EQ(none.left, 0);
    EXPECT_EQ(link.endOf(one), from + 5);
    link.advance(from + 5);
    link.end(none);
    link.end(one);
  }
}

TEST(SharedLink, TakesItsTime) {
  SharedLink link;
  for (int i = 0; i < 3; ++i) {
    int64_t from = nowNanoseconds();
    link.cross(from, 5 * milli);
    EXPECT_GE(nowNanoseconds(), from + 5 * milli);
    link.cross(nowNanoseconds(), 0);
  }
}

TEST(TransferQueues, ABucketPaysOneLatency) {
  expectOk(onContexts(
      2,
      [](TestRank &context) -> Status {
        constexpr int parts = 8;
        Start bucket(0, FSDP_RT_ALL_GATHER, FSDP_RT_QUEUE_ALL_GATHER, {},
                     parts);
        Status s = runStep(context, [&](fsdp_rt_context *ctx) {
          return bucket(ctx) || waitFor(ctx, 0);
        });
        const StepTimes &t = context.counters().lastStep;
        EXPECT_GE(t.transfers, 200 * milli);
        // Not one for each, however late a busy machine is.
        EXPECT_LT(t.transfers, parts * 200 * milli);
        return s;
      },
      0, 0.2));
}

TEST(TransferQueues, TheTraceHasATrackForEachQueue) {
  std::string path = testing::TempDir() + "/fsdp-queues-trace.json";
  expectOk(onContexts(2, [&](TestRank &context) -> Status {
    Start gather(0), sum(1, FSDP_RT_ALL_REDUCE, FSDP_RT_QUEUE_ALL_REDUCE);
    sum.parts[0].dst = extraAt;
    fsdp_rt_copy_desc copy = {"copy", -1, 1 << 19, 64};
    // A trace reads descriptors: they live as long as the program.
    fsdp_rt_wait_desc waits[] = {{"gathered", 0}, {"summed", 1}};
    Status s = runStep(context, [&](fsdp_rt_context *ctx) {
      return gather(ctx) || fsdp_rt_copy(ctx, &copy) || sum(ctx) ||
             fsdp_rt_wait(ctx, &waits[1]) || fsdp_rt_wait(ctx, &waits[0]);
    });
    if (s || context.world().rank() == 1)
      return s;
    TraceHeader header;
    header.groupSizes = {2, 1};
    header.certificate.emplace();
    header.certificate->issue = "abc";
    header.certificate->transfers = {{"layers.0", false}, {"", true}};
    return writeTrace(path, header, context.recorder());
  }));
  std::ifstream file(path);
  Json trace = Json::parse(file);
  EXPECT_EQ(trace["fsdp"]["issue"], "abc");
  std::map<std::string, int> tracks;
  std::map<std::string, Json> events;
  std::map<int, double> launches;
  for (const Json &event : trace["traceEvents"]) {
    if (event["name"] == "thread_name")
      tracks[event["args"]["name"]] = event["tid"];
    if (event["ph"] == "M")
      continue;
    EXPECT_GE(event["ts"], 0.0);
    std::string name = event["name"];
    if (event["cat"] == "cuda_runtime") {
      EXPECT_EQ(event["tid"], 6);
      launches[event["args"]["correlation"]] = event["ts"];
      continue;
    }
    if (event["cat"] == "cuda_sync")
      name += " " + std::to_string(int(event["args"]["event"]));
    events[name] = event;
  }
  EXPECT_EQ(
      tracks,
      (std::map<std::string, int>{
          {"compute", 0}, {"all_gather", 1}, {"all_reduce", 3}, {"steps", 6}}));
  ASSERT_EQ(events.size(), 6u);
  EXPECT_EQ(events["copy"]["tid"], 0);
  const Json &gather = events["ncclDevKernel_AllGather"];
  EXPECT_EQ(gather["tid"], 1);
  EXPECT_EQ(gather["args"]["stream"], 1);
  EXPECT_EQ(gather["args"]["unit"], "layers.0");
  EXPECT_EQ(gather["args"]["phase"], "forward");
  EXPECT_EQ(gather["args"]["bytes"], 2 * count * 4);
  EXPECT_EQ(gather["args"]["Group size"], 2);
  EXPECT_EQ(gather["args"]["dtype"], "f32");
  const Json &sum = events["ncclDevKernel_AllReduce_Sum"];
  EXPECT_EQ(sum["args"]["bytes"], count * 4);
  EXPECT_FALSE(sum["args"].contains("unit"));
  EXPECT_EQ(sum["args"]["phase"], "backward");
  const Json &wait = events["Stream Wait Event 1"];
  EXPECT_EQ(wait["tid"], 0);
  EXPECT_FALSE(wait["args"].contains("stream"));
  EXPECT_EQ(wait["args"]["wait_on_stream"], 3);
  EXPECT_EQ(wait["args"]["wait_on_cuda_event_record_corr_id"],
            sum["args"]["correlation"]);
  EXPECT_GE(double(wait["ts"]) + double(wait["dur"]) + 1e-3,
            double(sum["ts"]) + double(sum["dur"]));
  EXPECT_EQ(events["ProfilerStep#1"]["cat"], "user_annotation");
  EXPECT_EQ(launches.size(), 3u);
  for (const Json &kernel : {gather, sum, events["copy"]})
    EXPECT_LE(launches.at(kernel["args"]["correlation"]), kernel["ts"]);
  std::filesystem::remove(path);
}

Status onContextsWithoutThreads(int ranks,
                                const std::function<Status(TestRank &)> &body) {
  return onContexts(ranks, body, 0, 0, [](int) { return QueueThreads::Off; });
}

TEST(TransferQueues, WithoutThreadsTheStartIsTheTransfer) {
  expectOk(onContextsWithoutThreads(2, [](TestRank &context) -> Status {
    int rank = context.world().rank();
    auto out = reinterpret_cast<float *>(context.arena() + dstAt);
    for (int step = 1; step <= 3; ++step) {
      Start gather(0), sum(1, FSDP_RT_ALL_REDUCE, FSDP_RT_QUEUE_REDUCE, {0});
      sum.parts[0].src = dstAt;
      sum.parts[0].dst = extraAt;
      auto total = reinterpret_cast<float *>(context.arena() + extraAt);
      if (Status s = runStep(context, [&](fsdp_rt_context *ctx) -> int32_t {
            compute(ctx, [&] {
              auto in = reinterpret_cast<float *>(context.arena() + srcAt);
              for (int64_t i = 0; i < count; ++i)
                in[i] = float(10 * step + rank);
            });
            gather(ctx);
            compute(ctx, [&] {
              EXPECT_EQ(out[0], float(10 * step));
              EXPECT_EQ(out[count], float(10 * step + 1));
            });
            sum(ctx);
            compute(ctx, [&] { EXPECT_EQ(total[0], float(20 * step)); });
            return waitFor(ctx, 1) || waitFor(ctx, 0);
          }))
        return s;
      // All of it is exposed, and nothing of it is counted twice.
      const StepTimes &t = context.counters().lastStep;
      EXPECT_GT(t.communication, 0);
      EXPECT_GE(t.transfers, t.communication);
      EXPECT_LE(t.communication + t.waiting, t.total);
    }
    return Status::ok();
  }));
}

TEST(TransferQueues, ThreadsAreForWhatGainsByThem) {
  int cores = availableCores();
  for (bool hasLink : {false, true}) {
    EXPECT_EQ(decideQueueThreads(QueueThreads::Off, hasLink, 1, 1),
              QueueThreads::Off);
    EXPECT_EQ(decideQueueThreads(QueueThreads::On, hasLink, cores, 8),
              QueueThreads::On);
    for (auto [ranks, threads] :
         {std::pair(cores, 1), std::pair(1, cores), std::pair(cores, cores)})
      EXPECT_EQ(decideQueueThreads(QueueThreads::Auto, hasLink, ranks, threads),
                hasLink ? QueueThreads::On : QueueThreads::Off);
  }
  EXPECT_EQ(decideQueueThreads(QueueThreads::Auto, false, 0, 1),
            QueueThreads::On);
}

TEST(TransferQueues, RanksAgreeOnThreads) {
  for (int wants : {-1, 0, 1, 2}) {
    auto wish = [&](int rank) {
      return rank == wants ? QueueThreads::On : QueueThreads::Off;
    };
    expectOk(onContexts(
        3,
        [&](TestRank &context) -> Status {
          Start gather(0);
          Status s = runStep(context, [&](fsdp_rt_context *ctx) {
            return gather(ctx) || waitFor(ctx, 0);
          });
          // Threads leave nothing of a transfer to the step but the wait.
          EXPECT_EQ(context.counters().lastStep.communication == 0, wants >= 0);
          return s;
        },
        0, 0, wish));
  }
}

TEST(TransferQueues, WithoutThreadsAFailureEndsAllRanks) {
  Status status = onContextsWithoutThreads(3, [](TestRank &context) -> Status {
    Start gather(0);
    gather.parts[0].count -= context.world().rank() == 1;
    bool hasGoneOn = false;
    Status s = runStep(context, [&](fsdp_rt_context *ctx) {
      return gather(ctx) || compute(ctx, [&] { hasGoneOn = true; }) ||
             waitFor(ctx, 0);
    });
    EXPECT_FALSE(s.isOk());
    EXPECT_FALSE(hasGoneOn);
    return s;
  });
  EXPECT_EQ(status.code(), Code::Internal);
  EXPECT_NE(status.message().find("expected the same collective on all ranks"),
            std::string::npos)
      << status.message();

  status = onContextsWithoutThreads(2, [](TestRank &context) -> Status {
    if (context.world().rank() == 1) {
      sleepFor(20);
      return Status::failed("enough");
    }
    Start gather(0);
    return runStep(context, [&](fsdp_rt_context *ctx) {
      return gather(ctx) || waitFor(ctx, 0);
    });
  });
  EXPECT_EQ(status.message(), "rank 1: enough");
}

/// A step on one rank fails with `part` in its message.
void expectRefused(const char *part, const Step &step) {
  Status status =
      onContexts(1, [&](TestRank &context) { return runStep(context, step); });
  EXPECT_EQ(status.code(), Code::Internal) << part;
  EXPECT_NE(status.message().find(part), std::string::npos) << status.message();
}

TEST(TransferQueues, RefusesWrongStarts) {
  auto refuse = [](const char *part, auto change) {
    Start start(0);
    change(start);
    expectRefused(part, [&](fsdp_rt_context *ctx) { return start(ctx); });
  };
  refuse("start 'transfer': part 0: expected one of 2 groups, got 2",
         [](auto &s) { s.parts[0].group = 2; });
  refuse("part 0: expected operands inside the arena",
         [](auto &s) { s.parts[0].dst = arenaBytes - 4; });
  refuse("part 1: expected group 0 as of the first, got 1", [](auto &s) {
    s.parts.push_back(partDesc());
    s.parts[1].group = 1;
  });
  refuse("at least 1 part, got 0", [](auto &s) { s.parts.clear(); });
  refuse("kind of transfer, got 6", [](auto &s) { s.desc.kind = 6; });
  refuse("kind of transfer, got -1", [](auto &s) { s.desc.kind = -1; });
  for (int32_t queue : {-1, 0, 4})
    refuse("expected a queue that the manifest names, got",
           [&](auto &s) { s.desc.queue = queue; });
  refuse("expected an event below 4, got 4", [](auto &s) { s.desc.event = 4; });
  refuse("got -1", [](auto &s) { s.desc.event = -1; });
  for (int64_t event : {0, 1, 4, -1})
    refuse("expected to be after an event that this step has started, got",
           [&](auto &s) { s.after = {event}; });
  refuse("0 to 4 events to be after", [](auto &s) { s.after.resize(5); });
}

TEST(TransferQueues, RefusesEventsOutOfPlace) {
  Start first(0), second(0);
  expectRefused(
      "event 0 to be started once in a step, got it twice",
      [&](fsdp_rt_context *ctx) { return first(ctx) || second(ctx); });
  for (int64_t event : {int64_t(-1), int64_t(2), numEvents})
    expectRefused("wait 'arrived': expected an event that this step has "
                  "started, got",
                  [&](fsdp_rt_context *ctx) { return waitFor(ctx, event); });
  // Nor one of the step before.
  Status status = onContexts(1, [&](TestRank &context) -> Status {
    if (Status s = runStep(context, [&](fsdp_rt_context *ctx) {
          return first(ctx) || waitFor(ctx, 0);
        }))
      return s;
    return runStep(context,
                   [&](fsdp_rt_context *ctx) { return waitFor(ctx, 0); });
  });
  EXPECT_NE(status.message().find("that this step has started, got 0"),
            std::string::npos)
      << status.message();
}

TEST(TransferQueues, AStepHasToWaitForAllItStarted) {
  Status status = onContexts(
      2,
      [&](TestRank &context) -> Status {
        Start gather(0), sum(3, FSDP_RT_ALL_REDUCE, FSDP_RT_QUEUE_REDUCE);
        sum.parts[0].dst = extraAt;
        sum.desc.name = "forgotten";
        return runStep(context, [&](fsdp_rt_context *ctx) {
          return gather(ctx) || sum(ctx) || waitFor(ctx, 0);
        });
      },
      slow);
  EXPECT_NE(status.message().find("expected the step to wait for all 2 "
                                  "transfers that it started, got no wait for "
                                  "'forgotten', event 3"),
            std::string::npos)
      << status.message();
  EXPECT_EQ(status.code(), Code::Internal);
}

TEST(TransferQueues, RefusesCollectivesBesideStarts) {
  fsdp_rt_collective_desc part = partDesc();
  expectRefused("start 'all_gather': expected a queue that the manifest names, "
                "got the computation's",
                [&](fsdp_rt_context *ctx) {
                  return inOrder(ctx, FSDP_RT_ALL_GATHER, &part);
                });
}

TEST(TransferQueues, RefusesImpossibleOptions) {
  using hal::maxEvents;
  auto refuse = [](const char *part, int64_t events,
                   std::vector<int32_t> queues) {
    auto backend = createLocalBackend({});
    ASSERT_TRUE(backend.isOk());
    Status status = (*backend)->run([&](World &world) {
      TestRankOptions options;
      options.groups = {{0}};
      options.events = events;
      options.queues = queues;
      return TestRank::create(world, options).status();
    });
    EXPECT_NE(status.message().find(part), std::string::npos)
        << status.message();
  };
  refuse("expected a queue for 3 events, got none", 3, {});
  refuse("events of queues, got 0", 0, {1});
  refuse("events of queues, got 1048577", maxEvents + 1, {1});
  refuse("increasing numbers of queues from 1 to 5, got 1", 3, {2, 1});
  refuse("increasing numbers of queues from 1 to 5, got 2", 3, {2, 2});
  refuse("increasing numbers of queues from 1 to 5, got 6", 3, {1, 6});
  refuse("increasing numbers of queues from 1 to 5, got 0", 3, {0});
}

TEST(TransferQueues, StartsAndWaitsNeedEvents) {
  auto backend = createLocalBackend({});
  ASSERT_TRUE(backend.isOk());
  Start gather(0);
  for (bool isWait : {false, true}) {
    Status status = (*backend)->run([&](World &world) -> Status {
      TestRankOptions options;
      options.arenaBytes = arenaBytes;
      options.groups = {{0}};
      auto context = TestRank::create(world, options);
      if (!context.isOk())
        return context.status();
      return runStep(**context, [&](fsdp_rt_context *ctx) {
        return isWait ? waitFor(ctx, 0) : gather(ctx);
      });
    });
    EXPECT_NE(status.message().find("expected a manifest with events"),
              std::string::npos)
        << status.message();
  }
}

TEST(TransferQueues, ARankThatFailsEndsTheTransfersOfOthers) {
  for (int64_t delay : {0, 20}) {
    std::atomic<int> failed{0};
    Status status = onContexts(3, [&](TestRank &context) -> Status {
      bool isBad = context.world().rank() == 1;
      context.arena()[flagAt] = !isBad;
      fsdp_rt_check_desc check = {"token id out of range", flagAt};
      Start gather(0), sum(1, FSDP_RT_ALL_REDUCE, FSDP_RT_QUEUE_REDUCE, {0}),
          last(2, FSDP_RT_ALL_REDUCE, FSDP_RT_QUEUE_ALL_REDUCE, {1});
      sum.parts[0].dst = extraAt;
      last.parts[0].dst = 1 << 19;
      auto step = [&](fsdp_rt_context *ctx) -> int32_t {
        // All but one rank have transfers under way that wait for it.
        return compute(ctx, [=] { sleepFor(isBad ? delay : 0); }) ||
               gather(ctx) || fsdp_rt_check(ctx, &check) || sum(ctx) ||
               last(ctx) || waitFor(ctx, 2) || waitFor(ctx, 1) ||
               waitFor(ctx, 0);
      };
      Status first = runStep(context, step);
      EXPECT_FALSE(first.isOk());
      Status second = runStep(context, step);
      EXPECT_EQ(first.message(), second.message());
      EXPECT_EQ(context.counters().steps, 0);
      ++failed;
      return first;
    });
    EXPECT_EQ(failed, 3);
    EXPECT_EQ(status.message(), "rank 1: token id out of range");
    EXPECT_EQ(status.code(), Code::Failed);
  }
}

TEST(TransferQueues, ATransferThatFailsEndsTheStep) {
  // Ranks disagree, which a transfer finds out while the step computes.
  Status status = onContexts(2, [](TestRank &context) -> Status {
    Start gather(0), sum(1, FSDP_RT_ALL_REDUCE, FSDP_RT_QUEUE_REDUCE, {0});
    sum.parts[0].dst = extraAt;
    gather.parts[0].count -= context.world().rank();
    bool hasGoneOn = false;
    Status s = runStep(context, [&](fsdp_rt_context *ctx) -> int32_t {
      return gather(ctx) || waitFor(ctx, 0) || sum(ctx) ||
             compute(ctx, [&] { hasGoneOn = true; }) || waitFor(ctx, 1);
    });
    EXPECT_FALSE(hasGoneOn);
    return s;
  });
  EXPECT_EQ(status.code(), Code::Internal);
  EXPECT_NE(status.message().find("expected the same collective on all ranks"),
            std::string::npos)
      << status.message();
}

TEST(TransferQueues, AbortWakesAStepThatWaits) {
  Status status = onContexts(2, [](TestRank &context) -> Status {
    if (context.world().rank() == 1) {
      sleepFor(20);
      context.world().abort(Status::failed("enough"));
      return Status::ok();
    }
    Start gather(0);
    return runStep(context, [&](fsdp_rt_context *ctx) {
      return gather(ctx) || waitFor(ctx, 0);
    });
  });
  EXPECT_EQ(status.message(), "rank 1: enough");
}

} // namespace
