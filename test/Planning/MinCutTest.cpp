//===- MinCutTest.cpp - Cheapest cut of a graph ---------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Planning/MinCut.h"

#include "gtest/gtest.h"

#include <random>

using namespace mlir::fsdp::sched;

namespace {
struct Edge {
  int from, to;
  int64_t capacity;
};

int64_t getCost(const std::vector<Edge> &edges, unsigned side) {
  int64_t cost = 0;
  for (const Edge &edge : edges)
    if ((side >> edge.from & 1) && !(side >> edge.to & 1))
      cost += edge.capacity;
  return cost;
}
} // namespace

TEST(MinCut, isTheCheapestOfAllCuts) {
  std::mt19937 random(1);
  auto draw = [&](int below) { return int(random() % below); };
  for (int round = 0; round != 2000; ++round) {
    int nodes = 2 + draw(7);
    std::vector<Edge> edges(draw(20));
    MinCut graph;
    for (int i = 2; i != nodes; ++i)
      graph.addNode();
    for (Edge &edge : edges) {
      edge = {draw(nodes), draw(nodes), 1 + draw(9)};
      graph.addEdge(edge.from, edge.to, edge.capacity);
    }
    std::vector<bool> found = graph.solve();
    unsigned side = 0;
    for (int i = 0; i != nodes; ++i)
      side |= unsigned(found[i]) << i;
    ASSERT_EQ(side & 3, 1u);
    int64_t least = MinCut::kInfinite;
    int fewest = nodes;
    // Bit 0 is the source, bit 1 the sink.
    for (unsigned other = 1; other < 1u << nodes; other += 4) {
      int64_t cost = getCost(edges, other);
      int size = __builtin_popcount(other);
      if (cost < least || (cost == least && size < fewest)) {
        least = cost;
        fewest = size;
      }
    }
    EXPECT_EQ(getCost(edges, side), least);
    EXPECT_EQ(graph.getCost(), least);
    EXPECT_EQ(__builtin_popcount(side), fewest);
  }
}

TEST(MinCut, longChainsAreNoProblem) {
  MinCut graph;
  int last = MinCut::kSource;
  for (int i = 0; i != 200000; ++i) {
    int next = graph.addNode();
    graph.addEdge(last, next, i == 1000 ? 3 : 5);
    last = next;
  }
  graph.addEdge(last, MinCut::kSink, 5);
  std::vector<bool> side = graph.solve();
  EXPECT_EQ(graph.getCost(), 3);
  EXPECT_TRUE(side[1001]);
  EXPECT_FALSE(side[1002]);
}
