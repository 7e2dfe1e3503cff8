//===- ExactSumsTest.cpp - Sums in a fixed tree, by hand ------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TestCluster.h"

#include "fsdp/Cost/AnalyticCost.h"
#include "fsdp/Cost/ExactSums.h"
#include "fsdp/Cost/NcclModel.h"

using namespace mlir::fsdp;

namespace {

constexpr int64_t kMiB = 1 << 20;

TransferKey makeSum(TransferKind kind, const GroupPlacement &group,
                    int64_t bytes, int64_t scale) {
  return {kind, {bytes}, group, {scale}};
}

struct ExactSums : testing::Test {
  Cluster cluster = parseOrFail(kRoundCluster);
  GroupPlacement node = placeOrFail(cluster, 32, 8, 1);
  GroupPlacement all = placeOrFail(cluster, 32, 32, 1);
  GroupPlacement across = placeOrFail(cluster, 32, 4, 8);

  double seconds(const GroupPlacement &group, int64_t bytes) const {
    return getNcclChoice(cluster, TransferKind::AllToAll, group, bytes).seconds;
  }
  double kernels(double launches, double bytes) const {
    return launches * cluster.device.launchSeconds +
           cluster.device.memory.seconds(bytes);
  }
  double ratio(const ExactSum &sum) const {
    return sum.betweenNodes / sum.ringBetweenNodes;
  }
};

TEST_F(ExactSums, InsideANodeRanksExchangeAllElements) {
  double bytes = 64.0 * kMiB;
  ExactSum scatter = getExactSum(
      cluster, makeSum(TransferKind::ReduceScatter, node, 64 * kMiB, 2));
  EXPECT_DOUBLE_EQ(scatter.seconds,
                   seconds(node, 64 * kMiB) + kernels(1, bytes + bytes / 8));
  EXPECT_EQ(scatter.betweenNodes, 0);
  // And then the parts that each has added up.
  ExactSum reduce = getExactSum(
      cluster, makeSum(TransferKind::AllReduce, node, 64 * kMiB, 2));
  EXPECT_DOUBLE_EQ(reduce.seconds, 2 * seconds(node, 64 * kMiB) +
                                       kernels(1, bytes + bytes / 8));
}

TEST_F(ExactSums, NodesExchangePartialSums) {
  ASSERT_EQ(all.nodes, 4);
  GroupPlacement inside = {8, 1, 8}, between = {4, 4, 1, 0, 8};
  double bytes = 64.0 * kMiB;
  for (int64_t scale : {1, 2}) {
    ExactSum sum = getExactSum(
        cluster, makeSum(TransferKind::ReduceScatter, all, 64 * kMiB, scale));
    double partials = bytes / 8 * double(scale);
    EXPECT_DOUBLE_EQ(sum.seconds,
                     seconds(inside, 64 * kMiB) +
                         seconds(between, int64_t(partials)) +
                         kernels(5, bytes + 2 * partials + bytes / 32));
    // 24 of the 31 thirty-seconds of a ring, of so wide sums.
    EXPECT_DOUBLE_EQ(ratio(sum), double(scale) * 24 / 31);
  }
}

/// As the runtime's plan of 64 ranks on nodes of eight, of bf16.
TEST_F(ExactSums, BytesOfEightNodes) {
  Cluster large = parseOrFail(replaced("\"nodes\": 4", "\"nodes\": 8"));
  GroupPlacement group = placeOrFail(large, 64, 64, 1);
  ExactSum sum = getExactSum(
      large, makeSum(TransferKind::ReduceScatter, group, 64 * kMiB, 2));
  EXPECT_NEAR(ratio(sum), 1.78, 0.005);
  // Three nodes are no subtrees: ranks send all others their elements.
  group = placeOrFail(large, 24, 24, 1);
  EXPECT_FALSE(hasTwoLevels(group));
  sum = getExactSum(large,
                    makeSum(TransferKind::ReduceScatter, group, 48 * kMiB, 2));
  EXPECT_NEAR(ratio(sum), 24. * 16 / (3 * 23), 0.01);
}

TEST_F(ExactSums, OneRankOnEachNodeHasOneLevel) {
  EXPECT_FALSE(hasTwoLevels(across));
  ExactSum sum = getExactSum(
      cluster, makeSum(TransferKind::ReduceScatter, across, 64 * kMiB, 2));
  EXPECT_DOUBLE_EQ(ratio(sum), 1);
}

/// Shorter ones are added up by every rank: no results are exchanged.
TEST_F(ExactSums, ShortAllReduces) {
  ExactSum sum =
      getExactSum(cluster, makeSum(TransferKind::AllReduce, node, 1024, 1));
  EXPECT_DOUBLE_EQ(sum.seconds, seconds(node, 8 * 1024) + kernels(1, 9 * 1024));
}

TEST_F(ExactSums, AreWhatTheModelSays) {
  AnalyticCost model(cluster, getQueueLinks(cluster, all, across));
  TransferKey exact = makeSum(TransferKind::ReduceScatter, all, 64 * kMiB, 2);
  TransferKey nccl = exact;
  nccl.partialScales.clear();
  EXPECT_NEAR(toSeconds(model.transfer(exact).total()),
              getExactSum(cluster, exact).seconds, 1e-11);
  EXPECT_LT(model.transfer(nccl).total(), model.transfer(exact).total());
  EXPECT_EQ(model.route(exact).algorithm, kExactAlgorithm);
  EXPECT_EQ(model.route(exact).protocol, kTwoLevels);
  EXPECT_EQ(
      model.route(makeSum(TransferKind::AllReduce, across, kMiB, 1)).protocol,
      kOneLevel);
  EXPECT_NE(model.route(nccl).algorithm, kExactAlgorithm);
}

} // namespace
