//===- PlacementTest.cpp - Groups on nodes --------------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TestCluster.h"

using namespace mlir::fsdp;

static GroupPlacement make(int64_t ranks, int64_t nodes, int64_t perNode,
                           int64_t neighbours, int64_t unevenness = 0) {
  GroupPlacement group;
  group.ranks = ranks;
  group.nodes = nodes;
  group.ranksPerNode = perNode;
  group.neighbours = neighbours;
  group.unevenness = unevenness;
  return group;
}

namespace {

struct Placement : testing::Test {
  Cluster cluster = parseOrFail(kRoundCluster);

  std::string errorOf(const Cluster &on, int64_t world, int64_t size,
                      int64_t stride) {
    llvm::Expected<GroupPlacement> group = placeGroup(on, world, size, stride);
    if (!group)
      return llvm::toString(group.takeError());
    ADD_FAILURE() << "expected an error";
    return "";
  }
};

TEST_F(Placement, ShardAxis) {
  EXPECT_EQ(placeOrFail(cluster, 32, 1, 1), make(1, 1, 1, 1));
  EXPECT_EQ(placeOrFail(cluster, 32, 4, 1), make(4, 1, 4, 1));
  EXPECT_EQ(placeOrFail(cluster, 32, 8, 1), make(8, 1, 8, 1));
  EXPECT_EQ(placeOrFail(cluster, 32, 16, 1), make(16, 2, 8, 1));
  EXPECT_EQ(placeOrFail(cluster, 32, 32, 1), make(32, 4, 8, 1));
  EXPECT_EQ(placeOrFail(cluster, 4, 4, 1), make(4, 1, 4, 1));
}

TEST_F(Placement, ReplicateAxis) {
  EXPECT_EQ(placeOrFail(cluster, 32, 4, 8), make(4, 4, 1, 8));
  // Shards of 4: two replicas on each node, four groups through its NICs.
  EXPECT_EQ(placeOrFail(cluster, 32, 8, 4), make(8, 4, 2, 4));
  EXPECT_EQ(placeOrFail(cluster, 32, 2, 16), make(2, 2, 1, 8));
  EXPECT_EQ(placeOrFail(cluster, 8, 2, 4), make(2, 1, 2, 1));
}

TEST_F(Placement, GroupsThatStraddleANode) {
  // Three groups of 6 on nodes of 8: ranks 6..11 lie on both.
  EXPECT_EQ(placeOrFail(cluster, 18, 6, 1), make(6, 2, 4, 2, 2));
  // One rank is alone on its node.
  EXPECT_EQ(placeOrFail(cluster, 9, 9, 1), make(9, 2, 8, 1, 7));
  EXPECT_EQ(placeOrFail(cluster, 12, 12, 1), make(12, 2, 8, 1, 4));
  // Of 8 groups of 3, two have 2 on one of their nodes and 1 on the other.
  EXPECT_EQ(placeOrFail(cluster, 24, 3, 1), make(3, 2, 2, 2, 1));
  EXPECT_EQ(placeOrFail(cluster, 24, 8, 3), make(8, 3, 3, 3, 1));
  // Ranks 0 to 9 have 8 and 2, ranks 10 to 19 have 6 and 4.
  EXPECT_EQ(placeOrFail(cluster, 20, 10, 1), make(10, 2, 8, 2, 6));
}

TEST_F(Placement, AClusterThatIsTooSmall) {
  EXPECT_EQ(errorOf(cluster, 64, 64, 1),
            "expected a mesh of at most 32 ranks on cluster 'round' (4 nodes "
            "of 8), got 64");
}

TEST_F(Placement, LinksThatDoNotConnectTheGroup) {
  Cluster noNic = cluster;
  noNic.inter.reset();
  EXPECT_EQ(placeOrFail(noNic, 32, 8, 1), make(8, 1, 8, 1));
  EXPECT_EQ(errorOf(noNic, 32, 4, 8),
            "expected links.inter in cluster 'round', because a group of 4 "
            "ranks reaches over 4 nodes of 8, got none");
  Cluster noNVLink = cluster;
  noNVLink.intra.reset();
  EXPECT_EQ(placeOrFail(noNVLink, 32, 4, 8), make(4, 4, 1, 8));
  EXPECT_EQ(errorOf(noNVLink, 32, 8, 1),
            "expected links.intra in cluster 'round', because a group of 8 "
            "ranks has 8 on one node, got none");
}

} // namespace
