//===- MinCut.cpp - Cheapest cut of a graph -------------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Planning/MinCut.h"

#include <algorithm>

using namespace mlir::fsdp::sched;

int MinCut::addNode() {
  edges.emplace_back();
  return edges.size() - 1;
}

void MinCut::addEdge(int from, int to, int64_t capacity) {
  edges[from].push_back({to, int(edges[to].size()), capacity});
  edges[to].push_back({from, int(edges[from].size()) - 1, 0});
}

/// Distances from the source over edges with room left.
bool MinCut::findLevels() {
  level.assign(edges.size(), -1);
  level[kSource] = 0;
  std::vector<int> queue = {kSource};
  for (size_t i = 0; i != queue.size(); ++i)
    for (const Edge &edge : edges[queue[i]])
      if (edge.left > 0 && level[edge.to] < 0) {
        level[edge.to] = level[queue[i]] + 1;
        queue.push_back(edge.to);
      }
  return level[kSink] >= 0;
}

/// Pushes flow along one shortest path; 0 where there is none left. The path is
/// kept on a stack of our own: chains of a long step are deep.
int64_t MinCut::push(int64_t most) {
  std::vector<int> path = {kSource};
  while (path.back() != kSink) {
    int node = path.back();
    if (next[node] == int(edges[node].size())) {
      // A dead end.
      path.pop_back();
      if (path.empty())
        return 0;
      ++next[path.back()];
      continue;
    }
    const Edge &edge = edges[node][next[node]];
    if (edge.left > 0 && level[edge.to] == level[node] + 1)
      path.push_back(edge.to);
    else
      ++next[node];
  }
  int64_t flow = most;
  for (size_t i = 0; i + 1 != path.size(); ++i)
    flow = std::min(flow, edges[path[i]][next[path[i]]].left);
  for (size_t i = 0; i + 1 != path.size(); ++i) {
    Edge &edge = edges[path[i]][next[path[i]]];
    edge.left -= flow;
    edges[edge.to][edge.back].left += flow;
  }
  return flow;
}

std::vector<bool> MinCut::solve() {
  while (findLevels()) {
    next.assign(edges.size(), 0);
    while (int64_t flow = push(kInfinite))
      cost += flow;
  }
  std::vector<bool> side(edges.size());
  for (size_t i = 0; i != edges.size(); ++i)
    side[i] = level[i] >= 0;
  return side;
}
