//===- CudaNodesTest.cpp - Sums over ranks of several nodes ---------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Ranks are threads with a device of the emulated driver each, of which some
// are taken to be a node. Each case has a process of its own.
//
//===----------------------------------------------------------------------===//

#include "CudaBuckets.h"

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <unistd.h>

namespace fsdp::test {
namespace {

using rt::Status;

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

} // namespace
} // namespace fsdp::test
