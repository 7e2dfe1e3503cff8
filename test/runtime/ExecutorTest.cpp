//===- ExecutorTest.cpp - One rank of a running program -------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FunctionStep.h"
#include "channels/local/LocalBackend.h"
#include "core/Host.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <functional>
#include <limits>
#include <thread>

namespace {

using namespace fsdp::rt;
using fsdp::test::compute;
using fsdp::test::inOrder;
using fsdp::test::runStep;
using fsdp::test::Step;
using fsdp::test::TestRank;
using fsdp::test::TestRankOptions;

/// The arena of these tests, in bytes from its start.
constexpr int64_t arenaBytes = 1 << 16;
constexpr int64_t srcAt = 0, dstAt = 8192, extraAt = 16384, flagAt = 65535;
constexpr int64_t count = 100;

Status onRanks(int ranks, const std::function<Status(World &)> &body) {
  LocalBackendOptions options;
  options.ranks = ranks;
  auto backend = createLocalBackend(options);
  return backend.isOk() ? (*backend)->run(body) : backend.status();
}

TestRankOptions optionsFor(const World &world) {
  TestRankOptions options;
  options.arenaBytes = arenaBytes;
  options.scratchBytes = 1024;
  std::vector<int> all;
  for (int rank = 0; rank < world.size(); ++rank)
    all.push_back(rank);
  options.groups = {all, {world.rank()}};
  return options;
}

/// Runs `body` with a context on each rank.
Status onContexts(int ranks, int threads,
                  const std::function<Status(TestRank &)> &body) {
  return onRanks(ranks, [&](World &world) -> Status {
    TestRankOptions options = optionsFor(world);
    options.threads = threads;
    auto context = TestRank::create(world, options);
    return context.isOk() ? body(**context) : context.status();
  });
}

float *floats(TestRank &context, int64_t at) {
  return reinterpret_cast<float *>(context.arena() + at);
}

/// operands: src, dst. dst[i] = src[i] + 1, through scratch.
void addOne(char *const *operands, char *scratch, int64_t begin, int64_t end) {
  EXPECT_EQ(reinterpret_cast<uintptr_t>(scratch) % 64, 0u);
  auto src = reinterpret_cast<const float *>(operands[0]);
  auto dst = reinterpret_cast<float *>(operands[1]);
  auto temporary = reinterpret_cast<float *>(scratch);
  for (int64_t i = begin; i < end; ++i) {
    temporary[0] = src[i];
    dst[i] = temporary[0] + 1;
  }
}

const int64_t addOneOperands[] = {srcAt, dstAt};
const fsdp_rt_cpu_kernel_desc addOneCode = {
    reinterpret_cast<const void *>(addOne), count, 7, 256};
const void *const addOneImplementations[] = {&addOneCode};
fsdp_rt_launch_desc addOneDesc() {
  return {"add_one", addOneImplementations, addOneOperands, 2, 2 * count * 4, 0,
          0};
}

fsdp_rt_collective_desc collectiveDesc() {
  fsdp_rt_collective_desc desc = {};
  desc.name = "bucket";
  desc.src = srcAt;
  desc.dst = dstAt;
  desc.count = count;
  desc.divisor = 1;
  desc.dtype = FSDP_RT_F32;
  return desc;
}

TEST(Executor, RunsEveryCallOfTheTable) {
  for (int ranks : {1, 2, 3})
    for (int threads : {1, 2}) {
      Status status = onContexts(ranks, threads, [&](TestRank &context) {
        int rank = context.world().rank();
        for (int64_t i = 0; i < count * ranks; ++i)
          floats(context, srcAt)[i] = float(i + 1000 * rank);
        context.arena()[flagAt] = 1;
        fsdp_rt_launch_desc launch = addOneDesc();
        fsdp_rt_collective_desc collective = collectiveDesc();
        fsdp_rt_copy_desc copy = {"copy", dstAt, extraAt, count * 4};
        fsdp_rt_copy_desc clear = {"clear", -1, dstAt, count * 4};
        fsdp_rt_check_desc check = {"never", flagAt};
        fsdp_rt_matmul_desc matmul = {};
        matmul.name = "product";
        matmul.a = srcAt;
        matmul.b = srcAt;
        matmul.c = extraAt;
        matmul.m = matmul.n = matmul.k = 3;
        matmul.lda = matmul.ldb = matmul.ldc = 3;
        for (int64_t &extent : matmul.batch)
          extent = 1;
        matmul.alpha = 1;
        matmul.dtype = FSDP_RT_F32;
        float base = 1000.0f * float(rank), sum = 0;
        for (int r = 0; r < ranks; ++r)
          sum += 1000.0f * float(r);

        return runStep(context, [&](fsdp_rt_context *ctx) -> int32_t {
          auto expect = [&](int64_t at, int64_t index, float value) {
            compute(ctx, [=, &context] {
              EXPECT_EQ(floats(context, at)[index], value);
            });
          };
          EXPECT_EQ(fsdp_rt_launch(ctx, &launch), 0);
          expect(dstAt, count - 1, base + count);
          EXPECT_EQ(fsdp_rt_copy(ctx, &copy), 0);
          expect(extraAt, 5, base + 6);
          EXPECT_EQ(fsdp_rt_copy(ctx, &clear), 0);
          expect(dstAt, 5, 0);
          EXPECT_EQ(fsdp_rt_check(ctx, &check), 0);
          EXPECT_EQ(fsdp_rt_matmul(ctx, &matmul), 0);
          const float *a = floats(context, srcAt);
          expect(extraAt, 1, a[0] * a[1] + a[1] * a[4] + a[2] * a[7]);
          EXPECT_EQ(inOrder(ctx, FSDP_RT_ALL_GATHER, &collective), 0);
          expect(dstAt, count * (ranks - 1) + 3,
                 1000.0f * float(ranks - 1) + 3);
          EXPECT_EQ(inOrder(ctx, FSDP_RT_REDUCE_SCATTER, &collective), 0);
          expect(dstAt, 7, sum + float(ranks) * float(count * rank + 7));
          EXPECT_EQ(inOrder(ctx, FSDP_RT_ALL_REDUCE, &collective), 0);
          expect(dstAt, 7, sum + float(ranks) * 7);
          return 0;
        });
      });
      EXPECT_TRUE(status.isOk()) << status.message();
    }
}

TEST(Executor, CountsCallsBytesAndTime) {
  constexpr int ranks = 3;
  Status status = onContexts(ranks, 1, [&](TestRank &context) -> Status {
    fsdp_rt_collective_desc desc = collectiveDesc();
    fsdp_rt_collective_desc alone = collectiveDesc();
    alone.group = 1;
    fsdp_rt_launch_desc launch = addOneDesc();
    for (int step = 0; step < 2; ++step)
      if (Status s = runStep(context, [&](fsdp_rt_context *ctx) {
            return inOrder(ctx, FSDP_RT_ALL_GATHER, &desc) ||
                   inOrder(ctx, FSDP_RT_ALL_GATHER, &desc) ||
                   inOrder(ctx, FSDP_RT_REDUCE_SCATTER, &desc) ||
                   inOrder(ctx, FSDP_RT_ALL_REDUCE, &desc) ||
                   inOrder(ctx, FSDP_RT_ALL_REDUCE, &alone) ||
                   fsdp_rt_launch(ctx, &launch);
          }))
        return s;
    const Counters &c = context.counters();
    EXPECT_EQ(c.steps, 2);
    auto expect = [&](int group, int32_t kind, int64_t calls, int64_t bytes) {
      EXPECT_EQ(c.groups[size_t(group)][size_t(kind)].calls, calls)
          << transferName(kind);
      EXPECT_EQ(c.groups[size_t(group)][size_t(kind)].bytes, bytes)
          << transferName(kind);
    };
    expect(0, FSDP_RT_ALL_GATHER, 4, 4 * 2 * count * 4);
    expect(0, FSDP_RT_REDUCE_SCATTER, 2, 2 * 2 * count * 4);
    // 2 * (ranks - 1) parts of 34 of the 100 elements.
    expect(0, FSDP_RT_ALL_REDUCE, 2, 2 * 4 * 34 * 4);
    expect(1, FSDP_RT_ALL_REDUCE, 2, 0);
    for (const StepTimes &t : {c.lastStep, c.allSteps}) {
      EXPECT_GT(t.total, 0);
      EXPECT_GT(t.kernels, 0);
      EXPECT_GT(t.communication, 0);
      EXPECT_GE(t.waiting, 0);
      EXPECT_GE(t.other, 0);
      EXPECT_EQ(t.matmul, 0);
      EXPECT_EQ(t.total,
                t.matmul + t.kernels + t.communication + t.waiting + t.other);
    }
    return Status::ok();
  });
  EXPECT_TRUE(status.isOk()) << status.message();
}

TEST(Executor, WaitingForASlowRankIsWaiting) {
  // A busy machine may be late to start either rank.
  std::atomic<bool> isThere{false};
  Status status = onContexts(2, 1, [&](TestRank &context) -> Status {
    fsdp_rt_collective_desc desc = collectiveDesc();
    bool isSlow = context.world().rank() == 1;
    Status s = runStep(context, [&](fsdp_rt_context *ctx) {
      return compute(ctx,
                     [&] {
                       while (isSlow && !isThere)
                         std::this_thread::yield();
                       if (isSlow)
                         std::this_thread::sleep_for(
                             std::chrono::milliseconds(30));
                       isThere = true;
                     }) ||
             inOrder(ctx, FSDP_RT_ALL_REDUCE, &desc);
    });
    const StepTimes &t = context.counters().lastStep;
    if (!isSlow)
      EXPECT_GT(t.waiting, t.communication);
    else
      EXPECT_GE(t.kernels, 30'000'000);
    return s;
  });
  EXPECT_TRUE(status.isOk()) << status.message();
}

TEST(Executor, AFailedCheckEndsTheStepOnAllRanks) {
  std::atomic<int> failed{0};
  Status status = onContexts(3, 1, [&](TestRank &context) -> Status {
    context.arena()[flagAt] = context.world().rank() == 1 ? 0 : 1;
    fsdp_rt_check_desc check = {"token id out of range", flagAt};
    fsdp_rt_collective_desc desc = collectiveDesc();
    auto step = [&](fsdp_rt_context *ctx) {
      return fsdp_rt_check(ctx, &check) ||
             inOrder(ctx, FSDP_RT_ALL_REDUCE, &desc);
    };
    Status first = runStep(context, step);
    EXPECT_FALSE(first.isOk());
    // And stays so.
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

/// Runs one bad call on a single rank; its failure must name `part`.
void expectRefused(const char *part,
                   const std::function<int32_t(fsdp_rt_context *)> &call) {
  Status status = onContexts(1, 1, [&](TestRank &context) {
    return runStep(context, [&](fsdp_rt_context *ctx) {
      int32_t code = call(ctx);
      EXPECT_EQ(code, 2) << part;
      return code;
    });
  });
  EXPECT_EQ(status.code(), Code::Internal);
  EXPECT_NE(status.message().find(part), std::string::npos) << status.message();
}

TEST(Executor, RefusesLaunchesOutsideOfItsMemory) {
  auto refuse = [](const char *part, auto change) {
    fsdp_rt_launch_desc desc = addOneDesc();
    change(desc);
    expectRefused(
        part, [&](fsdp_rt_context *ctx) { return fsdp_rt_launch(ctx, &desc); });
  };
  static const int64_t outside[] = {0, arenaBytes + 1};
  static const int64_t negative[] = {0, -1};
  refuse("launch 'add_one': operand 1", [](auto &d) { d.operands = outside; });
  refuse("operand 1", [](auto &d) { d.operands = negative; });
  refuse("null", [](auto &d) { d.implementations = nullptr; });
  refuse("null", [](auto &d) { d.operands = nullptr; });
  refuse("operands", [](auto &d) { d.operand_count = int64_t(1) << 40; });
  refuse("operands", [](auto &d) { d.operand_count = -1; });
  refuse("operand 1", [](auto &d) {
    d.name = nullptr;
    d.operands = outside;
  });
  refuse("launch 'add_one': expected a workspace inside the arena of 65536 "
         "bytes, got 257 bytes at 65280",
         [](auto &d) {
           d.workspace = arenaBytes - 256;
           d.workspace_bytes = 257;
         });
  refuse("expected a workspace inside",
         [](auto &d) { d.workspace_bytes = -1; });
  refuse("expected a workspace at a multiple of 256 bytes, got offset 64",
         [](auto &d) {
           d.workspace = 64;
           d.workspace_bytes = 256;
         });
}

TEST(Executor, RefusesWorkspacesOfOtherCallsOutsideOfItsMemory) {
  fsdp_rt_matmul_desc matmul = {};
  matmul.name = "product";
  matmul.workspace = arenaBytes;
  matmul.workspace_bytes = 1;
  expectRefused(
      "matmul 'product': expected a workspace inside the arena",
      [&](fsdp_rt_context *ctx) { return fsdp_rt_matmul(ctx, &matmul); });
  fsdp_rt_attention_desc attention = {};
  attention.name = "tiles";
  attention.workspace = -256;
  attention.workspace_bytes = 256;
  expectRefused(
      "attention 'tiles': expected a workspace inside the arena",
      [&](fsdp_rt_context *ctx) { return fsdp_rt_attention(ctx, &attention); });
  expectRefused("attention_backward 'tiles': expected a workspace inside",
                [&](fsdp_rt_context *ctx) {
                  return fsdp_rt_attention_backward(ctx, &attention);
                });
}

TEST(Executor, RefusesCodeThatItCannotRun) {
  auto refuse = [](const char *part, const fsdp_rt_cpu_kernel_desc *code) {
    const void *implementations[] = {code};
    fsdp_rt_launch_desc desc = addOneDesc();
    desc.implementations = implementations;
    Status status = onContexts(1, 1, [&](TestRank &context) {
      return runStep(context, [&](fsdp_rt_context *ctx) {
        return fsdp_rt_launch(ctx, &desc);
      });
    });
    EXPECT_EQ(status.code(), Code::Internal);
    EXPECT_NE(status.message().find(part), std::string::npos)
        << status.message();
  };
  refuse("launch 'add_one': expected a kernel with code for processors",
         nullptr);
  fsdp_rt_cpu_kernel_desc code = addOneCode;
  code.function = nullptr;
  refuse("with code for processors", &code);
  code = addOneCode;
  code.scratch_bytes = 1025;
  refuse("1024 bytes of scratch", &code);
  code.scratch_bytes = -1;
  refuse("scratch", &code);
}

TEST(Executor, RefusesCollectivesOutsideOfItsMemory) {
  auto refuse = [](const char *part, auto change) {
    fsdp_rt_collective_desc desc = collectiveDesc();
    change(desc);
    expectRefused(part, [&](fsdp_rt_context *ctx) {
      return inOrder(ctx, FSDP_RT_ALL_REDUCE, &desc);
    });
  };
  refuse("start 'all_reduce': part 0: expected one of 2 groups, got 2",
         [](auto &d) { d.group = 2; });
  refuse("groups", [](auto &d) { d.group = -1; });
  refuse("element type", [](auto &d) { d.dtype = 77; });
  refuse("inside the arena", [](auto &d) { d.src = -4; });
  refuse("inside the arena", [](auto &d) { d.dst = arenaBytes - 4; });
  refuse("inside the arena", [](auto &d) { d.src = 2; });
  refuse("elements", [](auto &d) { d.count = -1; });
  refuse("elements", [](auto &d) { d.count = int64_t(1) << 62; });
  refuse("apart or in place", [](auto &d) { d.dst = d.src + 8; });
  fsdp_rt_collective_desc desc = collectiveDesc();
  desc.divisor = 0;
  Status status = onContexts(1, 1, [&](TestRank &context) {
    return runStep(context, [&](fsdp_rt_context *ctx) {
      return inOrder(ctx, FSDP_RT_ALL_REDUCE, &desc);
    });
  });
  EXPECT_NE(status.message().find("divisor"), std::string::npos);
}

TEST(Executor, AcceptsCollectivesInPlace) {
  Status status = onContexts(2, 1, [&](TestRank &context) {
    int rank = context.world().rank();
    fsdp_rt_collective_desc desc = collectiveDesc();
    desc.src = dstAt + rank * count * 4;
    fsdp_rt_collective_desc back = desc;
    std::swap(back.src, back.dst);
    floats(context, desc.src)[0] = float(rank + 1);
    return runStep(context, [&](fsdp_rt_context *ctx) -> int32_t {
      EXPECT_EQ(inOrder(ctx, FSDP_RT_ALL_GATHER, &desc), 0);
      compute(ctx, [&] {
        EXPECT_EQ(floats(context, dstAt)[0], 1);
        EXPECT_EQ(floats(context, dstAt)[count], 2);
      });
      EXPECT_EQ(inOrder(ctx, FSDP_RT_REDUCE_SCATTER, &back), 0);
      compute(ctx, [&] {
        EXPECT_EQ(floats(context, back.dst)[0], rank == 0 ? 2 : 4);
      });
      return 0;
    });
  });
  EXPECT_TRUE(status.isOk()) << status.message();
}

TEST(Executor, ExchangesPartsApart) {
  Status status = onContexts(2, 1, [&](TestRank &context) {
    int rank = context.world().rank();
    fsdp_rt_collective_desc desc = collectiveDesc();
    for (int64_t i = 0; i < 2 * count; ++i)
      floats(context, srcAt)[i] = float(1000 * rank + i);
    Status s = runStep(context, [&](fsdp_rt_context *ctx) -> int32_t {
      return inOrder(ctx, FSDP_RT_ALL_TO_ALL, &desc);
    });
    // Part `rank` of rank 0, then that of rank 1.
    for (int64_t i = 0; i < 2 * count; ++i)
      EXPECT_EQ(floats(context, dstAt)[i],
                float(1000 * (i / count) + rank * count + i % count));
    const Counters &c = context.counters();
    EXPECT_EQ(c.groups[0][FSDP_RT_ALL_TO_ALL].calls, 1);
    EXPECT_EQ(c.groups[0][FSDP_RT_ALL_TO_ALL].bytes, count * 4);
    return s;
  });
  EXPECT_TRUE(status.isOk()) << status.message();
  // Even where a part stays where it is, the others do not.
  for (int64_t apart : {int64_t(0), count * 4, -count * 4})
    expectRefused("expected operands apart, got src",
                  [&](fsdp_rt_context *ctx) {
                    fsdp_rt_collective_desc desc = collectiveDesc();
                    desc.src = dstAt + apart;
                    desc.count = 2 * count;
                    return inOrder(ctx, FSDP_RT_ALL_TO_ALL, &desc);
                  });
}

TEST(Transfers, EveryCollectiveHasItsRows) {
  for (int32_t kind = 0; kind < numTransferKinds; ++kind) {
    ASSERT_NE(kernelName(kind), nullptr) << transferName(kind);
    EXPECT_EQ(collectiveBytes(kind, 1, 100, 4), 0) << transferName(kind);
    EXPECT_EQ(collectiveBytes(kind, 4, 100, 4) > 0, isCollective(kind))
        << transferName(kind);
  }
  EXPECT_EQ(kernelName(numTransferKinds), nullptr);
  EXPECT_STREQ(kernelName(FSDP_RT_ALL_TO_ALL), "ncclDevKernel_SendRecv");
  EXPECT_EQ(collectiveBytes(FSDP_RT_ALL_TO_ALL, 4, 100, 2), 3 * 100 * 2);
  CollectiveShape shape = shapeOf(FSDP_RT_ALL_TO_ALL);
  EXPECT_EQ(shape.srcParts(4), 4);
  EXPECT_EQ(shape.dstParts(4), 4);
  EXPECT_FALSE(shape.isSum);
  EXPECT_EQ(shapeOf(FSDP_RT_ALL_GATHER).srcParts(4), 1);
  EXPECT_EQ(shapeOf(FSDP_RT_REDUCE_SCATTER).dstParts(4), 1);
  EXPECT_TRUE(shapeOf(FSDP_RT_ALL_REDUCE).isSum);
}

TEST(Executor, RefusesCopiesAndChecksOutsideOfItsMemory) {
  auto copy = [](const char *part, int64_t src, int64_t dst, int64_t bytes) {
    fsdp_rt_copy_desc desc = {"move", src, dst, bytes};
    expectRefused(
        part, [&](fsdp_rt_context *ctx) { return fsdp_rt_copy(ctx, &desc); });
  };
  copy("copy 'move': expected operands inside", arenaBytes - 3, 0, 4);
  copy("inside", 0, -4, 4);
  copy("inside", -2, 0, 4);
  copy("inside", 0, 8, -1);
  copy("inside", 0, 8, std::numeric_limits<int64_t>::max());
  copy("apart", 0, 8, 16);
  copy("apart", 8, 0, 16);
  for (int64_t flag : {int64_t(-1), arenaBytes}) {
    fsdp_rt_check_desc desc = {"x", flag};
    expectRefused(
        "check 'x': expected a flag inside",
        [&](fsdp_rt_context *ctx) { return fsdp_rt_check(ctx, &desc); });
  }
  // Onto itself is fine, and so is nothing.
  Status status = onContexts(1, 1, [&](TestRank &context) {
    fsdp_rt_copy_desc same = {"same", 8, 8, 16};
    fsdp_rt_copy_desc nothing = {"nothing", arenaBytes, 0, 0};
    return runStep(context, [&](fsdp_rt_context *ctx) {
      return fsdp_rt_copy(ctx, &same) || fsdp_rt_copy(ctx, &nothing);
    });
  });
  EXPECT_TRUE(status.isOk()) << status.message();
}

TEST(Executor, AStepThatFailsWithoutACallIsOurFault) {
  Status status = onContexts(1, 1, [](TestRank &context) {
    return runStep(context, [](fsdp_rt_context *) { return 7; });
  });
  EXPECT_EQ(status.code(), Code::Internal);
  EXPECT_NE(status.message().find("returned 7"), std::string::npos);
}

TEST(Executor, AFailureTheStepIgnoresStillEndsIt) {
  Status status = onContexts(1, 1, [](TestRank &context) {
    fsdp_rt_copy_desc copy = {"ignored", -1, arenaBytes, 1};
    return runStep(context, [&](fsdp_rt_context *ctx) {
      fsdp_rt_copy(ctx, &copy);
      return 0;
    });
  });
  EXPECT_EQ(status.code(), Code::Internal);
  EXPECT_NE(status.message().find("copy 'ignored'"), std::string::npos);
}

TEST(Executor, RefusesImpossibleOptions) {
  auto refuse = [](const char *part, auto change) {
    Status status = onRanks(1, [&](World &world) {
      TestRankOptions options = optionsFor(world);
      change(options);
      return TestRank::create(world, options).status();
    });
    EXPECT_NE(status.message().find(part), std::string::npos)
        << part << ": " << status.message();
  };
  refuse("threads per rank, got 0", [](auto &o) { o.threads = 0; });
  refuse("threads per rank", [](auto &o) { o.threads = 1 << 30; });
  refuse("arena", [](auto &o) { o.arenaBytes = -1; });
  refuse("an arena of 0", [](auto &o) { o.arenaBytes = int64_t(1) << 50; });
  refuse("of this host", [](auto &o) { o.arenaBytes = int64_t(1) << 45; });
  refuse("scratch", [](auto &o) { o.scratchBytes = -1; });
  constexpr int64_t huge = std::numeric_limits<int64_t>::max();
  refuse("scratch of", [](auto &o) { o.scratchBytes = huge; });
  refuse("for the scratch", [](auto &o) { o.scratchBytes = int64_t(1) << 45; });
  refuse("workspace", [](auto &o) { o.matmulWorkspaceBytes = 1000; });
  refuse("workspace", [](auto &o) { o.matmulWorkspaceBytes = huge; });
  refuse("trace events", [](auto &o) { o.traceEvents = -1; });
  refuse("trace events", [](auto &o) { o.traceEvents = int64_t(1) << 60; });
  refuse("group", [](auto &o) { o.groups = {{0, 1}}; });
}

TEST(Executor, ArenasOfAllRanksHaveToFit) {
  // Each alone would.
  int64_t tooMuch = memoryLimit() / 4 + (int64_t(1) << 20);
  Status status = onRanks(4, [&](World &world) {
    TestRankOptions options = optionsFor(world);
    options.arenaBytes = tooMuch;
    return TestRank::create(world, options).status();
  });
  EXPECT_NE(status.message().find("arenas of 4 ranks"), std::string::npos)
      << status.message();
}

TEST(Executor, StartsZeroedAndAligned) {
  Status status = onContexts(2, 2, [](TestRank &context) {
    EXPECT_EQ(reinterpret_cast<uintptr_t>(context.arena()) % (2 << 20), 0u);
    EXPECT_EQ(context.memory().size(), arenaBytes);
    for (int64_t i = 0; i < arenaBytes; ++i)
      EXPECT_EQ(context.arena()[i], 0);
    return Status::ok();
  });
  EXPECT_TRUE(status.isOk()) << status.message();
}

} // namespace
