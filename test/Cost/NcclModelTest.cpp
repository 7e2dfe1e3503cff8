//===- NcclModelTest.cpp - NCCL's formula by hand -------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TestCluster.h"

#include "fsdp/Cost/NcclModel.h"

#include <cmath>

using namespace mlir::fsdp;

namespace {

constexpr int64_t kMiB = 1 << 20;

NcclCandidate find(const Cluster &cluster, TransferKind kind,
                   const GroupPlacement &group, int64_t bytes,
                   NcclAlgorithm algorithm, NcclProtocol protocol,
                   int64_t atoms = 1) {
  for (const NcclCandidate &candidate :
       getNcclCandidates(cluster, kind, group, bytes, atoms))
    if (candidate.algorithm == algorithm && candidate.protocol == protocol)
      return candidate;
  ADD_FAILURE() << "no such candidate";
  return NcclCandidate();
}

bool has(const Cluster &cluster, TransferKind kind, const GroupPlacement &group,
         NcclAlgorithm algorithm, NcclProtocol protocol) {
  for (const NcclCandidate &candidate :
       getNcclCandidates(cluster, kind, group, kMiB))
    if (candidate.algorithm == algorithm && candidate.protocol == protocol)
      return true;
  return false;
}

struct NcclModel : testing::Test {
  Cluster cluster = parseOrFail(kRoundCluster);
  GroupPlacement node = placeOrFail(cluster, 32, 8, 1);
  GroupPlacement twoNodes = placeOrFail(cluster, 32, 16, 1);
  GroupPlacement all = placeOrFail(cluster, 32, 32, 1);
  GroupPlacement across = placeOrFail(cluster, 32, 4, 8);
};

TEST_F(NcclModel, RingInsideANode) {
  // 7 steps; the bus carries 7/8 of the buffer.
  auto simple = find(cluster, TransferKind::AllGather, node, 512 * kMiB,
                     NcclAlgorithm::Ring, NcclProtocol::Simple);
  EXPECT_NEAR(simple.latencySeconds, (8.4 + 7 * 3.4) * 1e-6, 1e-12);
  EXPECT_NEAR(simple.algorithmBandwidth, 370e9 * 8 / 7, 1);
  EXPECT_NEAR(simple.seconds, 32.2e-6 + 512.0 * kMiB * 7 / 8 / 370e9, 1e-12);

  auto ll = find(cluster, TransferKind::ReduceScatter, node, kMiB,
                 NcclAlgorithm::Ring, NcclProtocol::LL);
  EXPECT_NEAR(ll.latencySeconds, (6.6 + 7 * 0.6) * 1e-6, 1e-12);
  // Half of 370 is above LL's most on one Hopper node, 141.
  EXPECT_NEAR(ll.algorithmBandwidth, 141e9 * 8 / 7, 1);

  auto ll128 = find(cluster, TransferKind::AllGather, node, kMiB,
                    NcclAlgorithm::Ring, NcclProtocol::LL128);
  EXPECT_NEAR(ll128.latencySeconds, (14 + 7 * 1.9) * 1e-6, 1e-12);
  EXPECT_NEAR(ll128.algorithmBandwidth, 0.92 * 370e9 * 8 / 7, 1);
}

TEST_F(NcclModel, AllToAllBetweenPairsOfRanks) {
  auto of = [&](const GroupPlacement &group) {
    return find(cluster, TransferKind::AllToAll, group, 512 * kMiB,
                NcclAlgorithm::P2P, NcclProtocol::Simple);
  };
  // One hop; 7/8 of the buffer leave each GPU.
  EXPECT_NEAR(of(node).latencySeconds, (8.4 + 3.4) * 1e-6, 1e-12);
  EXPECT_NEAR(of(node).algorithmBandwidth, 370e9 * 8 / 7, 1);
  // 8/16 of each of 8 buffers leave the node, through NICs of 400 GB/s; a ring
  // brings 15/16 of one there.
  EXPECT_NEAR(of(twoNodes).latencySeconds, (8.4 + 14) * 1e-6, 1e-12);
  EXPECT_NEAR(of(twoNodes).algorithmBandwidth, 400e9 / 4, 1);
  // 24/32 of each of 8; 31 peers take two rounds of 16 channels.
  EXPECT_NEAR(of(all).latencySeconds, (8.4 + 2 * 14) * 1e-6, 1e-12);
  EXPECT_NEAR(of(all).algorithmBandwidth, 400e9 / 6, 1);
  // Neither rings nor the switch do it.
  for (const NcclCandidate &candidate :
       getNcclCandidates(cluster, TransferKind::AllToAll, node, kMiB))
    EXPECT_EQ(candidate.algorithm, NcclAlgorithm::P2P);
}

TEST_F(NcclModel, AllReduceRingBetweenTwoNodes) {
  // 30 steps, 2 of them between nodes. NICs: 400 GB/s, less than 370 * 8/7.
  auto simple = find(cluster, TransferKind::AllReduce, twoNodes, 512 * kMiB,
                     NcclAlgorithm::Ring, NcclProtocol::Simple);
  EXPECT_NEAR(simple.latencySeconds, 1.4 * (8.4 + 28 * 3.4 + 2 * 14) * 1e-6,
              1e-12);
  EXPECT_NEAR(simple.algorithmBandwidth, 400e9 * 16 / 30, 1);
  // Below 64 bytes per channel and rank the latency has no plateau.
  auto tiny = find(cluster, TransferKind::AllReduce, twoNodes, 8192,
                   NcclAlgorithm::Ring, NcclProtocol::Simple);
  EXPECT_NEAR(tiny.latencySeconds, (8.4 + 28 * 3.4 + 2 * 14) * 1e-6, 1e-12);
}

TEST_F(NcclModel, AnAmdHostPostsMoreSlowly) {
  Cluster amd = parseOrFail(replaced("intel", "amd"));
  auto simple = find(amd, TransferKind::AllGather, all, kMiB,
                     NcclAlgorithm::Ring, NcclProtocol::Simple);
  // Each step inside a node waits for the network's post: 3 * 2 us.
  EXPECT_NEAR(simple.latencySeconds, (8.4 + 28 * 6 + 3 * 14) * 1e-6, 1e-12);
  auto ll = find(amd, TransferKind::AllGather, all, kMiB, NcclAlgorithm::Ring,
                 NcclProtocol::LL);
  EXPECT_NEAR(ll.latencySeconds, (6.6 + 28 * 2 + 3 * 2.7) * 1e-6, 1e-12);
  EXPECT_NEAR(ll.algorithmBandwidth, 19e9 * 32 / 31, 1);
}

TEST_F(NcclModel, OneRankOnEachNodeSharesTheNics) {
  EXPECT_EQ(across.neighbours, 8);
  EXPECT_NEAR(getBusBandwidth(cluster, across), 400e9 / 8, 1);
  // Nothing hides the network's latency, so the tree's hop counts.
  auto ll = find(cluster, TransferKind::AllGather, across, kMiB,
                 NcclAlgorithm::Ring, NcclProtocol::LL);
  EXPECT_NEAR(ll.latencySeconds, (6.6 + 3 * 5.0) * 1e-6, 1e-12);
}

TEST_F(NcclModel, AGroupAloneDrivesOnlyItsOwnNics) {
  GroupPlacement alone = across;
  alone.neighbours = 1;
  EXPECT_NEAR(getBusBandwidth(cluster, alone), 50e9, 1);
}

TEST_F(NcclModel, TheNodeWithTheFewestRanksIsTheSlowest) {
  // A ring enters each node by the NICs beside the ranks there.
  for (auto [size, nics] : {std::pair(9, 1), {12, 4}, {15, 7}, {16, 8}}) {
    GroupPlacement group = placeOrFail(cluster, size, size, 1);
    EXPECT_NEAR(getBusBandwidth(cluster, group), nics * 50e9, 1) << size;
  }
  // Two groups of three leave the second node, each with one rank of it.
  GroupPlacement three = placeOrFail(cluster, 24, 3, 1);
  EXPECT_NEAR(getBusBandwidth(cluster, three), 50e9, 1);
}

TEST_F(NcclModel, TreeOverFourNodes) {
  auto tree = find(cluster, TransferKind::AllReduce, all, 512 * kMiB,
                   NcclAlgorithm::Tree, NcclProtocol::Simple);
  EXPECT_NEAR(tree.latencySeconds, (8.4 + 2 * (7 * 4.0 + 2 * 14)) * 1e-6,
              1e-12);
  // 0.92 of 400, half of it for each direction, and 0.9 at this size.
  EXPECT_NEAR(tree.algorithmBandwidth, 0.92 * 400e9 * 0.5 * 0.9, 1);
  auto ll = find(cluster, TransferKind::AllReduce, all, 512 * kMiB,
                 NcclAlgorithm::Tree, NcclProtocol::LL);
  EXPECT_NEAR(ll.latencySeconds, (6.8 + 2 * (7 * 0.6 + 2 * 5.0)) * 1e-6, 1e-12);
  EXPECT_NEAR(ll.algorithmBandwidth, 20.4e9 * 0.5, 1);
}

TEST_F(NcclModel, NvlsAddsUpInTheSwitch) {
  EXPECT_FALSE(has(cluster, TransferKind::AllReduce, node, NcclAlgorithm::NVLS,
                   NcclProtocol::Simple));
  Cluster nvls = parseOrFail(
      replaced("\"gb_per_s\": 370",
               "\"gb_per_s\": 370, \"nvls\": {\"efficiency\": 0.85, "
               "\"max_bus_gb_per_s\": 475}"));
  auto reduce = find(nvls, TransferKind::AllReduce, node, 512 * kMiB,
                     NcclAlgorithm::NVLS, NcclProtocol::Simple);
  EXPECT_NEAR(reduce.latencySeconds, 25e-6, 1e-12);
  // 2 * 0.85 * 370 * 15/16 would be 590.
  EXPECT_NEAR(reduce.algorithmBandwidth, 475e9 * 8 / 14, 1);
  auto gather = find(nvls, TransferKind::AllGather, node, 512 * kMiB,
                     NcclAlgorithm::NVLS, NcclProtocol::Simple);
  EXPECT_NEAR(gather.algorithmBandwidth, 370e9 * .85 * 15 / 16 * 7 / 8, 1);
  EXPECT_EQ(
      getNcclChoice(nvls, TransferKind::AllReduce, node, 512 * kMiB).algorithm,
      NcclAlgorithm::NVLS);
  EXPECT_TRUE(has(nvls, TransferKind::AllReduce, all, NcclAlgorithm::NVLSTree,
                  NcclProtocol::Simple));
  EXPECT_FALSE(has(nvls, TransferKind::AllGather, all, NcclAlgorithm::NVLS,
                   NcclProtocol::Simple));
}

TEST_F(NcclModel, ProtocolChangesWithSize) {
  auto protocolOf = [&](int64_t bytes) {
    return getNcclChoice(cluster, TransferKind::AllGather, node, bytes)
        .protocol;
  };
  EXPECT_EQ(protocolOf(64 << 10), NcclProtocol::LL);
  EXPECT_EQ(protocolOf(1 << 30), NcclProtocol::Simple);
}

TEST_F(NcclModel, LL128NeedsNVLinkAndProtocolsCanBeForbidden) {
  Cluster pcie = parseOrFail(replaced("nvlink", "pcie"));
  EXPECT_FALSE(has(pcie, TransferKind::AllGather, node, NcclAlgorithm::Ring,
                   NcclProtocol::LL128));
  EXPECT_TRUE(has(pcie, TransferKind::AllGather, across, NcclAlgorithm::Ring,
                  NcclProtocol::LL128));
  auto hop = find(pcie, TransferKind::AllGather, node, kMiB,
                  NcclAlgorithm::Ring, NcclProtocol::Simple);
  EXPECT_NEAR(hop.latencySeconds, (8.4 + 7 * 5.7) * 1e-6, 1e-12);
  Cluster simple = parseOrFail(replaced(
      "\"channels\": 16", "\"channels\": 16, \"protocols\": [\"simple\"]"));
  EXPECT_EQ(
      getNcclCandidates(simple, TransferKind::AllGather, node, kMiB).size(),
      1u);
}

TEST_F(NcclModel, ABucketHasOneLatencyPerRoundOfChannels) {
  auto get = [&](int64_t atoms) {
    return find(cluster, TransferKind::AllGather, node, kMiB,
                NcclAlgorithm::Ring, NcclProtocol::Simple, atoms)
        .latencySeconds;
  };
  EXPECT_DOUBLE_EQ(get(16), get(1));
  EXPECT_DOUBLE_EQ(get(17), 2 * get(1));
}

TEST_F(NcclModel, ATableOfEfficienciesIsExactAtItsPoints) {
  Cluster table = parseOrFail(
      replaced("\"nics_per_node\": 8",
               "\"nics_per_node\": 8, \"efficiency\": {\"bus_gb_per_s\": 400, "
               "\"ranks\": [16, 32], \"bytes\": [16777216, 1073741824], "
               "\"ratio\": [[0.32, 0.24], [0.92, 0.8]]}"));
  auto secondsOf = [&](const GroupPlacement &group, double bytes) {
    return getNcclChoice(table, TransferKind::AllGather, group, int64_t(bytes))
        .seconds;
  };
  EXPECT_NEAR(secondsOf(twoNodes, 16 * kMiB),
              16 * kMiB * 15.0 / 16 / (400e9 * 0.32), 1e-12);
  EXPECT_NEAR(secondsOf(all, 1 << 30), (1 << 30) * 31.0 / 32 / (400e9 * 0.8),
              1e-12);
  // 24 ranks: between 16 and 32 by the logarithm, log2(1.5) of the way.
  double part = std::log2(1.5);
  double ratio = std::pow(0.92, 1 - part) * std::pow(0.8, part);
  EXPECT_NEAR(table.inter->efficiency.ratio(1 << 30, 24, 400e9), ratio, 1e-9);
  // Far below the table the latency's formula is the longer.
  EXPECT_NEAR(
      secondsOf(all, 1024),
      getNcclChoice(cluster, TransferKind::AllGather, all, 1024).seconds,
      1e-12);
  // A line of half the bandwidth is busy as long with half the bytes.
  EXPECT_NEAR(table.inter->efficiency.ratio(1 << 29, 32, 200e9), 0.8, 1e-9);
}

TEST(NcclModelFiles, TimesRiseWithBytesAndHaveALatency) {
  for (const char *name : kClusterNames) {
    Cluster cluster = loadOrFail(name);
    if (cluster.intra->kind == IntraKind::Memory)
      continue;
    std::vector<GroupPlacement> groups;
    for (auto [size, stride] :
         {std::pair(8, 1), std::pair(2, 1), std::pair(16, 1), std::pair(64, 1),
          std::pair(1024, 1), std::pair(8, 8), std::pair(128, 8)})
      groups.push_back(placeOrFail(cluster, 1024, size, stride));
    for (const GroupPlacement &group : groups)
      for (TransferKind kind :
           {TransferKind::AllGather, TransferKind::ReduceScatter,
            TransferKind::AllReduce, TransferKind::AllToAll}) {
        double last = 0;
        for (double bytes = 4; bytes < 4e10; bytes *= 1.13) {
          NcclCandidate choice =
              getNcclChoice(cluster, kind, group, int64_t(bytes));
          EXPECT_GE(choice.seconds, last * (1 - 1e-12))
              << name << " " << group.ranks << " ranks, " << bytes << " bytes";
          EXPECT_GE(choice.seconds, choice.latencySeconds);
          EXPECT_GE(choice.seconds, 6e-6);
          last = choice.seconds;
        }
      }
  }
}

} // namespace
