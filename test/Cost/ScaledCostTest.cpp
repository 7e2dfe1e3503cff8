//===- ScaledCostTest.cpp - Parts of a cost model made faster -------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TestCluster.h"

#include "fsdp/Cost/AnalyticCost.h"
#include "fsdp/Cost/ScaledCost.h"

using namespace mlir::fsdp;

namespace {
class Fixed : public CostModel {
public:
  explicit Fixed(Time launch) : launchTime(launch) {}
  Time kernel(const KernelCost &) const override { return 1000; }
  Time launch(const KernelCost &) const override { return launchTime; }
  TransferCost transfer(const TransferKey &key) const override {
    return {70, 600, key.group.nodes > 1 ? Link::Inter : Link::Intra};
  }
  int rate(Queue, QueueMask) const override { return 512; }

private:
  Time launchTime;
};
} // namespace

static ScaledCost make(const CostFactors &factors, Time launch = 0) {
  return ScaledCost(std::make_unique<Fixed>(launch), factors);
}

TEST(ScaledCost, changesNothingByItself) {
  ScaledCost cost = make({});
  EXPECT_EQ(cost.kernel(makeMatmul(CostDtype::F32, 8, 8, 8)), 1000);
  EXPECT_EQ(cost.transfer({}).latency, 70);
  EXPECT_EQ(cost.transfer({}).work, 600);
  EXPECT_EQ(cost.rate(Queue::Compute, 1), 512);
}

TEST(ScaledCost, changesOnePartAtATime) {
  KernelCost product = makeMatmul(CostDtype::F32, 8, 8, 8), other;
  CostFactors factors;
  factors.products = 2;
  EXPECT_EQ(make(factors).kernel(product), 500);
  EXPECT_EQ(make(factors).kernel(other), 1000);

  factors = {};
  factors.otherKernels = 4;
  EXPECT_EQ(make(factors).kernel(product), 1000);
  EXPECT_EQ(make(factors).kernel(other), 250);

  // What it takes to start is not what it does.
  factors = {};
  EXPECT_EQ(make(factors, 300).kernel(product), 1000);
  factors.products = 2;
  EXPECT_EQ(make(factors, 300).kernel(product), 650);
  EXPECT_EQ(make(factors, 300).launch(product), 300);

  // Never below nothing.
  factors = {};
  factors.noLaunch = true;
  EXPECT_EQ(make(factors, 300).kernel(other), 700);
  EXPECT_EQ(make(factors, 3000).kernel(other), 0);
  EXPECT_EQ(make(factors, 300).launch(other), 0);

  factors = {};
  factors.freeCompute = true;
  EXPECT_EQ(make(factors).rate(Queue::Compute, 1), kFullRate);
}

/// An all_gather of 1 GiB, in seconds.
static double gather(const Cluster &cluster, const GroupPlacement &group) {
  TransferKey key;
  key.kind = TransferKind::AllGather;
  key.group = group;
  key.atomBytes = {1 << 30};
  TransferCost cost =
      AnalyticCost(cluster, getQueueLinks(cluster, group, group)).transfer(key);
  return toSeconds(cost.latency + cost.work);
}

TEST(FasterLink, isAskedOfTheModelAgain) {
  Cluster cluster = parseOrFail(kRoundCluster);
  GroupPlacement node = placeOrFail(cluster, 32, 8, 1),
                 across = placeOrFail(cluster, 32, 4, 8),
                 all = placeOrFail(cluster, 32, 32, 1);
  Cluster inter = makeLinkFaster(cluster, Link::Inter, 2);
  Cluster file = parseOrFail(replaced("50, \"nics", "100, \"nics"));
  for (const GroupPlacement &group : {node, across, all})
    EXPECT_EQ(gather(inter, group), gather(file, group));
  EXPECT_EQ(gather(inter, node), gather(cluster, node));
  EXPECT_LT(gather(inter, across), 0.6 * gather(cluster, across));
  // From 400 GB/s between nodes to the 370 * 8 / 7 inside of one.
  double ratio = gather(cluster, all) / gather(inter, all);
  EXPECT_GT(ratio, 1.0);
  EXPECT_LT(ratio, 1.1);
  // Inside alone it gains nothing.
  Cluster intra = makeLinkFaster(cluster, Link::Intra, 2);
  EXPECT_EQ(gather(intra, all), gather(cluster, all));
  EXPECT_LT(gather(intra, node), 0.6 * gather(cluster, node));
  EXPECT_EQ(makeLinkFaster(cluster, Link::DeviceToHost, 2).host->bandwidth,
            2 * cluster.host->bandwidth);
}

TEST(FasterLink, measuredCollectivesGainWhatTheirNarrowestLinkGains) {
  auto read = [](llvm::StringRef nodes, llvm::StringRef perNode) {
    return parseOrFail(replaced(
        "\"nccl\"",
        ("\"collectives\": [{\"kind\": \"all_gather\", \"nodes\": " + nodes +
         ", \"ranks_per_node\": " + perNode +
         ", \"us_by_bytes\": [[1024, 100], [1073741824, 1100]]}], \"nccl\"")
            .str()));
  };
  Cluster node = read("1", "8"), all = read("4", "8");
  GroupPlacement nodeGroup = placeOrFail(node, 32, 8, 1),
                 allGroup = placeOrFail(all, 32, 32, 1);
  EXPECT_NEAR(gather(node, nodeGroup), 1100e-6, 1e-9);
  EXPECT_NEAR(gather(makeLinkFaster(node, Link::Intra, 2), nodeGroup), 600e-6,
              1e-9);
  EXPECT_NEAR(gather(makeLinkFaster(node, Link::Inter, 2), nodeGroup), 1100e-6,
              1e-9);
  double gain = 370.0 * 8 / 7 / 400;
  EXPECT_NEAR(gather(makeLinkFaster(all, Link::Inter, 2), allGroup),
              100e-6 + 1000e-6 / gain, 1e-9);
}
