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

#include "CudaTest.h"

#include "Backends.h"
#include "Reference.h"
#include "core/NarrowFloat.h"
#include "devices/cuda/driver/Library.h"
#include "devices/cuda/nccl/NcclApi.h"
#include "fsdp-rt/reductions.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <unistd.h>

namespace fsdp::test {
namespace {

using rt::Status;

/// What a collective reads and writes, in elements.
struct Shape {
  int64_t src, dst;
};
Shape shapeOf(int32_t kind, int64_t count, int64_t ranks) {
  rt::CollectiveShape shape = rt::shapeOf(kind);
  return {count * shape.srcParts(ranks), count * shape.dstParts(ranks)};
}

/// What comes to `place`.
Bytes expectedOf(int32_t kind, const std::vector<Bytes> &sources, int place,
                 int64_t count, fsdp_rt_dtype dtype, int64_t divisor) {
  int64_t bytes = count * sizeOf(dtype);
  Bytes all;
  switch (kind) {
  case FSDP_RT_REDUCE_SCATTER:
    return expectedSum(sources, place * count, count, dtype, divisor);
  case FSDP_RT_ALL_REDUCE:
    return expectedSum(sources, 0, count, dtype, divisor);
  case FSDP_RT_ALL_GATHER:
    for (const Bytes &source : sources)
      all.insert(all.end(), source.begin(), source.end());
    return all;
  case FSDP_RT_ALL_TO_ALL:
    for (const Bytes &source : sources)
      all.insert(all.end(), source.begin() + place * bytes,
                 source.begin() + (place + 1) * bytes);
    return all;
  }
  return all;
}

constexpr int64_t partBytes = 1 << 19;

/// Parts of random elements that are issued together, the first of `count`
/// elements, others of fewer.
class Bucket {
public:
  Bucket(int32_t kind, fsdp_rt_dtype dtype, int64_t count, int64_t divisor,
         bool inPlace)
      : kind_(kind), dtype_(dtype) {
    for (int64_t part = 0; part < numParts; ++part) {
      fsdp_rt_collective_desc desc = {};
      desc.name = "part";
      desc.src = 2 * part * partBytes;
      desc.dst = inPlace ? desc.src : desc.src + partBytes;
      desc.count = part == 0 ? count : count / (part + 1);
      desc.divisor = divisor;
      desc.dtype = dtype;
      parts_.push_back(desc);
    }
    for (const fsdp_rt_collective_desc &part : parts_)
      pointers_.push_back(&part);
    start_ = {"transfer", pointers_.data(), numParts, nullptr, 0, -1, kind,
              0,          nullptr};
  }
  static constexpr int64_t numParts = 3;

  Status run(TestRank &rank) {
    int n = rank.world().size(), me = rank.world().rank();
    for (int64_t part = 0; part < numParts; ++part) {
      Bytes mine = source(part, me, n);
      if (Status s = rank.memory().upload(parts_[size_t(part)].src, mine.data(),
                                          int64_t(mine.size())))
        return s;
    }
    if (Status s = runStep(rank, [&](fsdp_rt_context *ctx) {
          return fsdp_rt_start(ctx, &start_);
        }))
      return s;
    for (int64_t part = 0; part < numParts; ++part)
      if (Status s = compare(rank, part))
        return s;
    return Status::ok();
  }

private:
  Bytes source(int64_t part, int rank, int n) const {
    return randomElements(
        dtype_, shapeOf(kind_, parts_[size_t(part)].count, n).src,
        uint64_t(1000 * part + 10 * kind_ + rank + 77 * dtype_));
  }

  Status compare(TestRank &rank, int64_t part) const {
    int n = rank.world().size(), me = rank.world().rank();
    const fsdp_rt_collective_desc &desc = parts_[size_t(part)];
    std::vector<Bytes> sources;
    for (int other = 0; other < n; ++other)
      sources.push_back(source(part, other, n));
    Bytes want =
        expectedOf(kind_, sources, me, desc.count, dtype_, desc.divisor);
    Bytes got(want.size());
    if (Status s =
            rank.memory().download(desc.dst, got.data(), int64_t(got.size())))
      return s;
    if (got != want)
      return Status::failed(std::string(rt::transferName(kind_)) + " of " +
                            std::to_string(desc.count) + " " + nameOf(dtype_) +
                            " among " + std::to_string(n) +
                            " ranks: other bits than the reference's");
    // The sources are as they were.
    Bytes before = source(part, me, n), after(before.size());
    if (desc.dst == desc.src)
      return Status::ok();
    if (Status s = rank.memory().download(desc.src, after.data(),
                                          int64_t(after.size())))
      return s;
    return before == after ? Status::ok()
                           : Status::failed("the source was overwritten");
  }

  int32_t kind_;
  fsdp_rt_dtype dtype_;
  std::vector<fsdp_rt_collective_desc> parts_;
  std::vector<const fsdp_rt_collective_desc *> pointers_;
  fsdp_rt_start_desc start_;
};

TestRankOptions options(const rt::World &world) {
  TestRankOptions wanted;
  wanted.arenaBytes = 2 * Bucket::numParts * partBytes;
  wanted.groups = {allRanks(world)};
  return wanted;
}

Status onRanks(int ranks, const std::function<Status(TestRank &)> &body,
               rt::Reduction reduction = rt::Reduction::Exact) {
  return runLocally(ranks, [&](rt::World &world) -> Status {
    testReduction = reduction;
    auto rank = TestRank::create(world, options(world));
    return rank.isOk() ? body(**rank) : rank.status();
  });
}

class CudaCollectives : public testing::TestWithParam<int> {
protected:
  void SetUp() override { setenv("FSDP_NCCL_TIMEOUT", "10", 1); }
};

Status compareWithReference(TestRank &rank, std::vector<int32_t> kinds,
                            std::vector<int64_t> counts) {
  for (fsdp_rt_dtype dtype : numberTypes())
    for (int32_t kind : kinds)
      for (int64_t count : counts) {
        bool inPlace = kind == FSDP_RT_ALL_REDUCE && count % 2 == 1;
        for (int64_t divisor : {1, 3})
          if (Status s = Bucket(kind, dtype, count, divisor, inPlace).run(rank))
            return s;
      }
  return Status::ok();
}

TEST_P(CudaCollectives, BitsOfTheReference) {
  EXPECT_CUDA_OK(onRanks(GetParam(), [](TestRank &rank) {
    return compareWithReference(rank,
                                {FSDP_RT_ALL_GATHER, FSDP_RT_REDUCE_SCATTER,
                                 FSDP_RT_ALL_REDUCE, FSDP_RT_ALL_TO_ALL},
                                {0, 1, 7, 1031});
  }));
}

/// Of so many bytes that each rank adds up a part, in the bucket's smallest
/// part, too.
Status reduceLongBuckets(TestRank &rank) {
  for (fsdp_rt_dtype dtype : {FSDP_RT_F32, FSDP_RT_BF16, FSDP_RT_U8}) {
    int64_t least = (int64_t(32) << 10) / sizeOf(dtype) + 1;
    int64_t count = Bucket::numParts * least + 16;
    EXPECT_FALSE(rt::planAllReduce(count / Bucket::numParts,
                                   {sizeOf(dtype), sizeOf(dtype)},
                                   {rank.world().size(), 1})
                     .isDirect);
    for (bool inPlace : {false, true})
      if (Status s =
              Bucket(FSDP_RT_ALL_REDUCE, dtype, count, 2, inPlace).run(rank))
        return s;
  }
  return Status::ok();
}
TEST_P(CudaCollectives, LongAllReduces) {
  EXPECT_CUDA_OK(onRanks(GetParam(), reduceLongBuckets));
}

INSTANTIATE_TEST_SUITE_P(, CudaCollectives, testing::Range(1, 9));

//===----------------------------------------------------------------------===//
// Several nodes
//===----------------------------------------------------------------------===//

TEST(SumPlacement, NodesThatAreSubtrees) {
  auto place = [](const std::vector<int> &nodes) {
    rt::SumPlacement placement = rt::placeSums(
        int64_t(nodes.size()), [&](int64_t i) { return nodes[size_t(i)]; });
    EXPECT_EQ(placement.ranks, int64_t(nodes.size()));
    return placement.nodes;
  };
  EXPECT_EQ(place({0}), 1);
  EXPECT_EQ(place({0, 0, 0, 0}), 1);
  EXPECT_EQ(place({0, 1, 2, 3}), 1);
  EXPECT_EQ(place({0, 0, 1, 1}), 2);
  EXPECT_EQ(place({7, 7, 7, 2, 2, 2}), 2);
  EXPECT_EQ(place({0, 0, 1, 1, 2, 2, 3, 3}), 4);
  // Three nodes: the tree's halves are of three ranks.
  EXPECT_EQ(place({0, 0, 1, 1, 2, 2}), 1);
  EXPECT_EQ(place({0, 0, 0, 1, 1}), 1);
  EXPECT_EQ(place({0, 1, 1, 0}), 1);
  EXPECT_EQ(place({0, 0, 1, 1, 0, 0, 1, 1}), 1);
  EXPECT_EQ(place({0, 0, 1, 2}), 1);
}

/// Where placeSums() has two levels, and nowhere else, every node is a subtree.
TEST(SumPlacement, IsThatOfTheTree) {
  std::function<bool(int64_t, int64_t, int64_t, int64_t)> has =
      [&](int64_t lo, int64_t hi, int64_t begin, int64_t end) {
        if (lo == begin && hi == end)
          return true;
        if (hi - lo <= 1)
          return false;
        int64_t mid = lo + (hi - lo + 1) / 2;
        return has(lo, mid, begin, end) || has(mid, hi, begin, end);
      };
  for (int64_t nodes = 2; nodes <= 33; ++nodes)
    for (int64_t perNode = 2; perNode <= 17; ++perNode) {
      bool areSubtrees = true;
      for (int64_t node = 0; node < nodes; ++node)
        areSubtrees &=
            has(0, nodes * perNode, node * perNode, (node + 1) * perNode);
      EXPECT_EQ(rt::hasTwoLevels(nodes, perNode), areSubtrees)
          << nodes << " nodes of " << perNode;
    }
}

struct Nodes {
  int nodes, perNode;
  int ranks() const { return nodes * perNode; }
  std::string name() const {
    return std::to_string(nodes) + "x" + std::to_string(perNode);
  }
  friend void PrintTo(const Nodes &nodes, std::ostream *out) {
    *out << nodes.name();
  }
};

class CudaNodes : public testing::TestWithParam<Nodes> {
protected:
  void SetUp() override { place(GetParam()); }
  static void place(Nodes wanted) {
    std::string perNode = std::to_string(wanted.perNode);
    setenv("FSDP_NCCL_TIMEOUT", "20", 1);
    setenv("FSDP_NODE_RANKS", perNode.c_str(), 1);
    setenv("FSDP_NCCL_NODE_DEVICES", perNode.c_str(), 1);
    setenv("FSDP_EMULATOR_DEVICES", std::to_string(wanted.ranks()).c_str(), 1);
  }
};

TEST_P(CudaNodes, BitsOfTheReference) {
  EXPECT_CUDA_OK(onRanks(GetParam().ranks(), [](TestRank &rank) {
    return compareWithReference(
        rank, {FSDP_RT_REDUCE_SCATTER, FSDP_RT_ALL_REDUCE}, {1, 301});
  }));
}

TEST_P(CudaNodes, LongAllReduces) {
  EXPECT_CUDA_OK(onRanks(GetParam().ranks(), reduceLongBuckets));
}

INSTANTIATE_TEST_SUITE_P(, CudaNodes,
                         testing::Values(Nodes{1, 4}, Nodes{2, 2}, Nodes{2, 3},
                                         Nodes{3, 2}, Nodes{4, 2}, Nodes{4, 4}),
                         [](const auto &info) { return info.param.name(); });

/// Bytes that all ranks sent to other nodes, by the double's count.
int64_t sentBetweenNodes(const std::string &path) {
  std::ifstream file(path);
  const std::string key = "\"between\": ";
  int64_t bytes = 0;
  for (std::string line; std::getline(file, line);)
    for (size_t at = 0; (at = line.find(key, at)) != std::string::npos;)
      bytes += std::atoll(line.c_str() + (at += key.size()));
  return bytes;
}

class CudaNodesTraffic : public CudaNodes {
protected:
  /// Of one bucket.
  int64_t measure(int32_t kind, fsdp_rt_dtype dtype, int64_t count,
                  rt::Reduction reduction) {
    std::string path =
        testing::TempDir() + "nodes-traffic-" + std::to_string(getpid());
    std::remove(path.c_str());
    // The double reads its name once; without a graph nothing is rehearsed.
    setenv("FSDP_NCCL_TRAFFIC", path.c_str(), 1);
    setenv("FSDP_TEST_GRAPH", "off", 1);
    EXPECT_CUDA_OK(onRanks(
        GetParam().ranks(),
        [&](TestRank &rank) {
          // NCCL's sums of narrow floats are refused, and have other bits.
          return Bucket(kind, dtype, count, 1, /*inPlace=*/false).run(rank);
        },
        reduction));
    int64_t bytes = sentBetweenNodes(path);
    std::remove(path.c_str());
    return bytes;
  }
};

/// What a ring sends between nodes for a bucket: each node's last rank, to the
/// next node.
int64_t ringBytes(Nodes nodes, int32_t kind, fsdp_rt_dtype dtype,
                  int64_t count) {
  int64_t n = nodes.ranks(), bytes = 0;
  for (int64_t part = 0; part < Bucket::numParts; ++part) {
    int64_t elements = part == 0 ? count : count / (part + 1);
    int64_t each = kind == FSDP_RT_REDUCE_SCATTER
                       ? (n - 1) * elements
                       : 2 * (n - 1) * ((elements + n - 1) / n);
    bytes += nodes.nodes * each * sizeOf(dtype);
  }
  return bytes;
}

TEST_P(CudaNodesTraffic, IsNearARings) {
  Nodes nodes = GetParam();
  auto ratioOf = [&](int32_t kind, fsdp_rt_dtype dtype, int64_t count) {
    return double(measure(kind, dtype, count, rt::Reduction::Exact)) /
           double(ringBytes(nodes, kind, dtype, count));
  };
  // Each element crosses as a partial sum, of 4 bytes, once for each other
  // node.
  double n = nodes.ranks();
  double ratio = n * (nodes.nodes - 1) / (nodes.nodes * (n - 1));
  EXPECT_DOUBLE_EQ(ratioOf(FSDP_RT_REDUCE_SCATTER, FSDP_RT_F32, 3000), ratio);
  EXPECT_DOUBLE_EQ(ratioOf(FSDP_RT_REDUCE_SCATTER, FSDP_RT_BF16, 3000),
                   2 * ratio);
  EXPECT_LE(2 * ratio, 1.7);
  // Of an all_reduce, the result crosses, too; parts are of whole 256 bytes.
  EXPECT_NEAR(ratioOf(FSDP_RT_ALL_REDUCE, FSDP_RT_BF16, 60000), 1.5 * ratio,
              0.05);
}

INSTANTIATE_TEST_SUITE_P(, CudaNodesTraffic,
                         testing::Values(Nodes{2, 4}, Nodes{4, 4}),
                         [](const auto &info) { return info.param.name(); });

TEST(CudaNodesErrors, ANumberThatIsNone) {
  setenv("FSDP_NODE_RANKS", "two", 1);
  EXPECT_HAS(onRanks(2, [](TestRank &) { return Status::ok(); }).message(),
             "expected a number of ranks for FSDP_NODE_RANKS, got 'two'");
}

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
