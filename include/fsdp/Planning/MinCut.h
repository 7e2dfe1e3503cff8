//===- MinCut.h - Cheapest cut of a graph -----------------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_PLANNING_MINCUT_H
#define FSDP_PLANNING_MINCUT_H

#include <cstdint>
#include <limits>
#include <vector>

namespace mlir::fsdp::sched {

/// A directed graph with capacities (Dinic's algorithm). Node 0 is the source,
/// node 1 the sink.
class MinCut {
public:
  static constexpr int kSource = 0, kSink = 1;
  /// Is never cut. (Sums of other capacities must stay below.)
  static constexpr int64_t kInfinite = std::numeric_limits<int64_t>::max() / 4;

  MinCut() : edges(2) {}

  int addNode();
  void addEdge(int from, int to, int64_t capacity);

  /// By node whether it is on the source's side of a cheapest cut: of all such
  /// cuts the one with the fewest nodes there. Once only.
  std::vector<bool> solve();
  /// What the cut costs; behind solve().
  int64_t getCost() const { return cost; }

private:
  struct Edge {
    int to;
    /// Place of the reverse edge among those of `to`.
    int back;
    int64_t left;
  };

  bool findLevels();
  int64_t push(int64_t most);

  std::vector<std::vector<Edge>> edges;
  std::vector<int> level, next;
  int64_t cost = 0;
};

} // namespace mlir::fsdp::sched

#endif // FSDP_PLANNING_MINCUT_H
