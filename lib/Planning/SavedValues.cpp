//===- SavedValues.cpp - What forward saves for backward ------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Planning/SavedValues.h"
#include "fsdp/Planning/MinCut.h"

#include <algorithm>

using namespace mlir::fsdp::sched;

namespace {
/// An edge of the graph before capacities are scaled.
struct Capacity {
  int from, to;
  double cost;
};

/// The cost of an edge that no cut may cross.
constexpr double kNeverCut = -1;
} // namespace

/// Cost of reading once what @op reads of values that are in memory anyway, but
/// for those that loop kernels of backward read in any case.
static double getCostOfKept(const SaveProblem &problem,
                            const SaveProblem::Op &op) {
  int64_t bytes = 0;
  for (int v : op.reads)
    if (problem.values[v].isKept && !problem.values[v].isReadByLoops)
      bytes += problem.values[v].bytes;
  return double(SaveProblem::kMovedByte) * double(bytes);
}

/// The graph leads against the flow of values, from the reads of backward, the
/// source, to what only forward can run, the sink. What is on the source's side
/// of a cut is made in backward: an op there is computed again, and a value
/// there whose op is on the other side is saved.
static std::vector<Capacity> getCapacities(const SaveProblem &problem,
                                           const std::vector<int> &opNodes,
                                           const std::vector<int> &valueNodes) {
  std::vector<Capacity> edges;
  std::vector<int> maker(problem.values.size(), -1);
  for (size_t o = 0; o != problem.ops.size(); ++o) {
    const SaveProblem::Op &op = problem.ops[o];
    if (op.isRepeatable)
      edges.push_back(
          {opNodes[o], MinCut::kSink,
           (op.cost + getCostOfKept(problem, op)) * double(op.repeats)});
    for (int v : op.results) {
      const SaveProblem::Value &value = problem.values[v];
      maker[v] = o;
      if (value.isKept)
        continue;
      int64_t perByte = problem.savedByte +
                        (value.isReadByLoops ? SaveProblem::kMovedByte : 0);
      edges.push_back({valueNodes[v],
                       op.isRepeatable ? opNodes[o] : MinCut::kSink,
                       double(value.bytes) * double(perByte)});
      if (value.isNeeded)
        edges.push_back({MinCut::kSource, valueNodes[v], kNeverCut});
    }
    if (!op.isRepeatable)
      continue;
    for (int v : op.reads) {
      const SaveProblem::Value &value = problem.values[v];
      if (value.isKept || maker[v] < 0)
        continue;
      edges.push_back({opNodes[o], valueNodes[v], kNeverCut});
      // The repeated op reads what is saved, unless backward does so anyway.
      if (!value.isReadByLoops)
        edges.push_back({opNodes[o],
                         problem.ops[maker[v]].isRepeatable ? opNodes[maker[v]]
                                                            : MinCut::kSink,
                         double(value.bytes) *
                             double(SaveProblem::kMovedByte * op.repeats)});
    }
  }
  return edges;
}

std::vector<bool>
mlir::fsdp::sched::chooseRepeatedOps(const SaveProblem &problem) {
  MinCut graph;
  std::vector<int> opNodes, valueNodes;
  for (size_t o = 0; o != problem.ops.size(); ++o)
    opNodes.push_back(graph.addNode());
  for (size_t v = 0; v != problem.values.size(); ++v)
    valueNodes.push_back(graph.addNode());
  std::vector<Capacity> edges = getCapacities(problem, opNodes, valueNodes);

  // The sum of all stays far below what is never cut.
  double total = 0;
  for (const Capacity &edge : edges)
    total += std::max(edge.cost, 0.0);
  double scale = std::max(1.0, total / double(MinCut::kInfinite / 4));
  for (const Capacity &edge : edges)
    graph.addEdge(edge.from, edge.to,
                  edge.cost < 0 ? MinCut::kInfinite
                                : int64_t(edge.cost / scale));

  // The cheapest cut with the fewest nodes at the source repeats least.
  std::vector<bool> isAtSource = graph.solve();
  std::vector<bool> repeated(problem.ops.size());
  for (size_t o = 0; o != problem.ops.size(); ++o)
    repeated[o] = problem.ops[o].isRepeatable && isAtSource[opNodes[o]];
  return repeated;
}
