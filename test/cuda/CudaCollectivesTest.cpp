//===- CudaCollectivesTest.cpp - Ranks with CUDA devices ------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Ranks are threads with a device of the emulated driver each, and communicate
// by the double of NCCL. Each case has a process of its own.
//
//===----------------------------------------------------------------------===//

#include "CudaBuckets.h"

#include "core/NarrowFloat.h"
#include "devices/cuda/driver/Library.h"
#include "devices/cuda/nccl/NcclApi.h"
#include "fsdp-rt/reductions.h"

#include <chrono>
#include <cstdlib>

namespace fsdp::test {
namespace {

using rt::Status;

class CudaCollectives : public testing::TestWithParam<int> {
protected:
  void SetUp() override { setenv("FSDP_NCCL_TIMEOUT", "10", 1); }
};

TEST_P(CudaCollectives, BitsOfTheReference) {
  EXPECT_CUDA_OK(onRanks(GetParam(), [](TestRank &rank) {
    return compareWithReference(rank,
                                {FSDP_RT_ALL_GATHER, FSDP_RT_REDUCE_SCATTER,
                                 FSDP_RT_ALL_REDUCE, FSDP_RT_ALL_TO_ALL},
                                {0, 1, 7, 1031});
  }));
}

TEST_P(CudaCollectives, LongAllReduces) {
  EXPECT_CUDA_OK(onRanks(GetParam(), reduceLongBuckets));
}

INSTANTIATE_TEST_SUITE_P(, CudaCollectives, testing::Range(1, 9));

//===----------------------------------------------------------------------===//
// Sums of NCCL
//===----------------------------------------------------------------------===//

fsdp_rt_collective_desc part(int64_t src, int64_t dst, int64_t count,
                             fsdp_rt_dtype dtype, int64_t divisor = 1) {
  return {"part", src, dst, count, divisor, 0, dtype};
}

/// Of two ranks, with --reduction nccl.
std::string failureOf(int32_t kind, fsdp_rt_collective_desc desc) {
  auto body = [&](TestRank &rank) -> Status {
    if (Status s = put(rank, 0, std::vector<char>(4096)))
      return s;
    return runStep(
        rank, [&](fsdp_rt_context *ctx) { return inOrder(ctx, kind, &desc); });
  };
  return onRanks(2, body, rt::Reduction::Nccl).message();
}

/// --reduction nccl: near the sum, not its bits.
TEST(CudaNcclSums, AreNearTheSum) {
  for (int ranks : {2, 3})
    for (int32_t kind : {FSDP_RT_REDUCE_SCATTER, FSDP_RT_ALL_REDUCE})
      EXPECT_CUDA_OK(onRanks(
          ranks,
          [&](TestRank &rank) -> Status {
            int n = rank.world().size(), me = rank.world().rank();
            constexpr int64_t count = 100;
            int64_t length = shapeOf(kind, count, n).src;
            std::vector<float> mine;
            for (int64_t i = 0; i < length; ++i)
              mine.push_back(1.0f / float(i + 7 * me + 1));
            if (Status s = put(rank, 0, mine))
              return s;
            fsdp_rt_collective_desc desc =
                part(0, 65536, count, FSDP_RT_F32, n);
            if (Status s = runStep(rank, [&](fsdp_rt_context *ctx) {
                  return inOrder(ctx, kind, &desc);
                }))
              return s;
            std::vector<float> got(count);
            if (Status s = get(rank, 65536, got))
              return s;
            int64_t begin = kind == FSDP_RT_REDUCE_SCATTER ? me * count : 0;
            for (int64_t i = 0; i < count; ++i) {
              double want = 0;
              for (int other = 0; other < n; ++other)
                want += 1.0 / double(begin + i + 7 * other + 1) / n;
              EXPECT_NEAR(got[size_t(i)], want, 1e-6 * want);
            }
            return Status::ok();
          },
          rt::Reduction::Nccl));
}

/// A sum of two has one order.
TEST(CudaNcclSums, OfTwoRanksAreExact) {
  for (fsdp_rt_dtype dtype : {FSDP_RT_F32, FSDP_RT_F64, FSDP_RT_I64,
                              FSDP_RT_I32, FSDP_RT_I8, FSDP_RT_U8})
    for (int32_t kind : {FSDP_RT_REDUCE_SCATTER, FSDP_RT_ALL_REDUCE})
      EXPECT_CUDA_OK(onRanks(
          2,
          [&](TestRank &rank) {
            return Bucket(kind, dtype, 100, /*divisor=*/1, /*inPlace=*/false)
                .run(rank);
          },
          rt::Reduction::Nccl));
}

TEST(CudaNcclSums, NarrowTypesAreRefused) {
  std::string message =
      failureOf(FSDP_RT_REDUCE_SCATTER, part(0, 8192, 8, FSDP_RT_BF16));
  EXPECT_HAS(message, "start 'reduce_scatter': expected sums of F32, F64 or "
                      "integers with --reduction nccl");
  EXPECT_HAS(message, "got BF16: compile with --reduce-dtype f32, or with the "
                      "type itself, which says that this is meant, or run with "
                      "--reduction exact");
  EXPECT_HAS(failureOf(FSDP_RT_ALL_REDUCE, part(0, 8192, 8, FSDP_RT_I16)),
             "got I16: run with --reduction exact");
  // What adds nothing up is of any type.
  EXPECT_EQ(failureOf(FSDP_RT_ALL_GATHER, part(0, 8192, 8, FSDP_RT_BF16)), "");
}

TEST(CudaNcclSums, NarrowTypesThatAreMeantAreTaken) {
  auto sum = [](rt::Dtype meant) {
    return runLocally(2, [&](rt::World &world) -> Status {
      testReduction = rt::Reduction::Nccl;
      TestRankOptions wanted = options(world);
      wanted.roundedSums = meant;
      auto rank = TestRank::create(world, wanted);
      if (!rank.isOk())
        return rank.status();
      // One and one in bf16.
      if (Status s = put(**rank, 0, std::vector<uint16_t>(8, 0x3f80)))
        return s;
      fsdp_rt_collective_desc desc = part(0, 8192, 8, FSDP_RT_BF16);
      if (Status s = runStep(**rank, [&](fsdp_rt_context *ctx) {
            return inOrder(ctx, FSDP_RT_ALL_REDUCE, &desc);
          }))
        return s;
      std::vector<uint16_t> got(8);
      if (Status s = get(**rank, 8192, got))
        return s;
      EXPECT_EQ(got, std::vector<uint16_t>(8, 0x4000));
      return Status::ok();
    });
  };
  EXPECT_CUDA_OK(sum(FSDP_RT_BF16));
  EXPECT_HAS(sum(FSDP_RT_F16).message(), "got BF16: compile with");
}

/// A mean that fits has no sum that does not, on 2, 3 and 4 ranks.
TEST(CudaNcclSums, MeansOfFloat16ThatFit) {
  for (int ranks : {2, 3, 4})
    for (int32_t kind : {FSDP_RT_REDUCE_SCATTER, FSDP_RT_ALL_REDUCE})
      EXPECT_CUDA_OK(runLocally(ranks, [&](rt::World &world) -> Status {
        testReduction = rt::Reduction::Nccl;
        TestRankOptions wanted = options(world);
        wanted.roundedSums = FSDP_RT_F16;
        auto rank = TestRank::create(world, wanted);
        if (!rank.isOk())
          return rank.status();
        constexpr int64_t count = 8;
        rt::Float16 large;
        rt::fromFloat(40000, large);
        std::vector<rt::Float16> mine(size_t(count * ranks), large);
        if (Status s = put(**rank, 0, mine))
          return s;
        fsdp_rt_collective_desc desc = part(0, 8192, count, FSDP_RT_F16, ranks);
        if (Status s = runStep(**rank, [&](fsdp_rt_context *ctx) {
              return inOrder(ctx, kind, &desc);
            }))
          return s;
        std::vector<rt::Float16> got(count);
        if (Status s = get(**rank, 8192, got))
          return s;
        for (rt::Float16 value : got)
          EXPECT_NEAR(rt::toFloat(value), 40000, 40000 / 512.) << ranks;
        return Status::ok();
      }));
}

TEST(CudaNcclErrors, RanksThatReduceOtherwise) {
  Status status = runLocally(2, [](rt::World &world) -> Status {
    testReduction =
        world.rank() == 0 ? rt::Reduction::Exact : rt::Reduction::Nccl;
    auto rank = TestRank::create(world, options(world));
    if (!rank.isOk())
      return rank.status();
    fsdp_rt_collective_desc desc = part(0, 8192, 8, FSDP_RT_F32);
    return runStep(**rank, [&](fsdp_rt_context *ctx) {
      return inOrder(ctx, FSDP_RT_ALL_GATHER, &desc);
    });
  });
  EXPECT_HAS(status.message(),
             "rank 1: start 'all_gather': the communicator of ranks 0, 1: "
             "expected --reduction exact, as on rank 0, got nccl");
}

//===----------------------------------------------------------------------===//
// Failures
//===----------------------------------------------------------------------===//

/// A gather on a queue, and what a rank does beside it.
Status
gatherBeside(int ranks,
             const std::function<int32_t(TestRank &, fsdp_rt_context *,
                                         const fsdp_rt_start_desc &)> &step) {
  return runLocally(ranks, [&](rt::World &world) -> Status {
    TestRankOptions wanted = options(world);
    wanted.events = 1;
    wanted.queues = {FSDP_RT_QUEUE_ALL_GATHER};
    auto rank = TestRank::create(world, wanted);
    if (!rank.isOk())
      return rank.status();
    if (Status s = put(**rank, 0, std::vector<char>(8192)))
      return s;
    fsdp_rt_collective_desc desc = part(0, 8192, 256, FSDP_RT_F32);
    const void *parts[] = {&desc};
    fsdp_rt_start_desc start = {"gather",
                                parts,
                                1,
                                nullptr,
                                0,
                                0,
                                FSDP_RT_ALL_GATHER,
                                FSDP_RT_QUEUE_ALL_GATHER,
                                nullptr};
    return runStep(
        **rank, [&](fsdp_rt_context *ctx) { return step(**rank, ctx, start); });
  });
}

TEST(CudaCollectiveRace, MissingWaitIsFound) {
  for (bool waits : {true, false}) {
    Status status = gatherBeside(2, [&](TestRank &, fsdp_rt_context *ctx,
                                        const fsdp_rt_start_desc &start) {
      static const fsdp_rt_copy_desc copy = {"copy", 8192, 32768, 2048};
      return fsdp_rt_start(ctx, &start) || (waits ? waitFor(ctx, 0) : 0) ||
             fsdp_rt_copy(ctx, &copy) || (waits ? 0 : waitFor(ctx, 0));
    });
    EXPECT_EQ(status.isOk(), waits) << status.message();
  }
}

Status gatherAndWait(int ranks) {
  return gatherBeside(ranks, [](TestRank &, fsdp_rt_context *ctx,
                                const fsdp_rt_start_desc &start) {
    return fsdp_rt_start(ctx, &start) || waitFor(ctx, 0);
  });
}

/// Ends within seconds on all ranks, which tell of the one that failed.
void expectEnd(int ranks, const std::string &message,
               const std::string &reason) {
  auto begin = std::chrono::steady_clock::now();
  Status status = gatherAndWait(ranks);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(8));
  EXPECT_HAS(status.message(), message);
  EXPECT_HAS(status.message(), reason);
}

TEST(CudaCollectiveFailure, OfASetup) {
  setenv("FSDP_NCCL_FAULT", "ncclCommInitRankConfig:1:2:1", 1);
  expectEnd(3,
            "rank 1: start 'gather': the communicator of ranks 0, 1, 2 for "
            "queue all_gather",
            "ncclCommInitRankConfig: unhandled system error");
}

TEST(CudaCollectiveFailure, OfAnIssue) {
  setenv("FSDP_NCCL_FAULT", "ncclGroupEnd:1:1:2", 1);
  expectEnd(3, "rank 2: start 'gather': ncclGroupEnd: unhandled cuda error",
            "as FSDP_NCCL_FAULT asks");
}

/// The first of two exchanges connects the ranks before a graph is made.
TEST(CudaCollectiveFailure, OfAnIssueInACapture) {
  if (std::getenv("FSDP_TEST_GRAPH"))
    GTEST_SKIP() << "expected a graph";
  setenv("FSDP_NCCL_FAULT", "ncclGroupEnd:2:1:2", 1);
  setenv("NCCL_GRAPH_REGISTER", "0", 1);
  expectEnd(3,
            "rank 2: as one CUDA graph, which --graph off does without: start "
            "'gather': ncclGroupEnd: unhandled cuda error",
            "as FSDP_NCCL_FAULT asks");
}

/// Ranks that have come to the call wait for this one, since NCCL registers
/// buffers, and nothing ends that but the process; ranks that have not hear of
/// the failure before. Which it is depends on threads.
TEST(CudaCollectiveFailure, OfAnIssueInACaptureThatRegisters) {
  if (std::getenv("FSDP_TEST_GRAPH"))
    GTEST_SKIP() << "expected a graph";
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  setenv("FSDP_NCCL_FAULT", "ncclGroupEnd:2:1:2", 1);
  auto endAnyhow = [] {
    Status status = gatherAndWait(3);
    std::fprintf(stderr, "%s\n", status.message().c_str());
    std::_Exit(status.isOk() ? 0 : 1);
  };
  EXPECT_EXIT(endAnyhow(), testing::ExitedWithCode(1),
              "rank 2: as one CUDA graph, which --graph off does without: "
              "start 'gather': ncclGroupEnd: .*");
}

TEST(CudaCollectiveFailure, ByItself) {
  // As a graph, the first one connects the ranks.
  bool isEager = std::getenv("FSDP_TEST_GRAPH");
  setenv("FSDP_NCCL_FAULT", isEager ? "async:1:6:0" : "async:2:6:0", 1);
  expectEnd(4, "rank 0: the communicator of ranks 0, 1, 2, 3 for queue ",
            "an error by itself in all_gather of 1024 uint8");
}

TEST(CudaCollectiveFailure, ByItselfIsNamed) {
  setenv("FSDP_NCCL_FAULT", "async:1:6:0", 1);
  setenv("CUDA_LAUNCH_BLOCKING", "1", 1);
  // The host waits behind the first call that needs it.
  expectEnd(2, "rank 0: start 'gather': the communicator of ranks 0, 1",
            "remote process exited or there was a network error");
}

/// One rank's own computation fails before its transfer.
TEST(CudaCollectiveFailure, OfOneRanksKernel) {
  auto begin = std::chrono::steady_clock::now();
  CudaLaunch trap("bad", {{"trap", 1, 1}}, {});
  setenv("CUDA_LAUNCH_BLOCKING", "1", 1);
  Status status = gatherBeside(3, [&](TestRank &rank, fsdp_rt_context *ctx,
                                      const fsdp_rt_start_desc &start) {
    return (rank.world().rank() == 1 ? fsdp_rt_launch(ctx, &trap.desc) : 0) ||
           fsdp_rt_start(ctx, &start) || waitFor(ctx, 0);
  });
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(8));
  EXPECT_HAS(status.message(), "rank 1: launch 'bad': ");
  EXPECT_HAS(status.message(), "CUDA_ERROR_");
}

/// And one does not come at all.
TEST(CudaCollectiveFailure, OfARankThatReturns) {
  auto begin = std::chrono::steady_clock::now();
  Status status =
      gatherBeside(3,
                   [&](TestRank &rank, fsdp_rt_context *ctx,
                       const fsdp_rt_start_desc &start) -> int32_t {
                     if (rank.world().rank() == 2)
                       return 1;
                     return fsdp_rt_start(ctx, &start) || waitFor(ctx, 0);
                   });
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(8));
  EXPECT_HAS(status.message(), "rank 2: ");
}

/// Ranks whose programs differ: the double tells of both.
TEST(CudaCollectiveFailure, CountsThatDiffer) {
  Status status = runLocally(2, [](rt::World &world) -> Status {
    auto rank = TestRank::create(world, options(world));
    if (!rank.isOk())
      return rank.status();
    if (Status s = put(**rank, 0, std::vector<char>(8192)))
      return s;
    fsdp_rt_collective_desc desc = part(0, 8192, 8 + world.rank(), FSDP_RT_F32);
    return runStep(**rank, [&](fsdp_rt_context *ctx) {
      return inOrder(ctx, FSDP_RT_ALL_GATHER, &desc);
    });
  });
  EXPECT_HAS(status.message(), "all_gather of 32 uint8 (number 0) on rank 0");
  EXPECT_HAS(status.message(), "all_gather of 36 uint8 (number 0) on rank 1");
}

TEST(CudaNcclErrors, AnOldLibrary) {
  setenv("FSDP_NCCL_VERSION", "21805", 1);
  auto opened = rt::NcclApi::open(rt::cudaLibraryDirectories());
  ASSERT_FALSE(opened.isOk());
  EXPECT_HAS(opened.status().message(),
             "libnccl.so.2: expected NCCL 2.19.0 or later, got NCCL 2.18.5");
}

} // namespace
} // namespace fsdp::test
