//===- Graph.cpp - Graphs, and streams that are captured into them --------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "driver/Graph.h"

#include <algorithm>

namespace fsdp::emulator {

Capture::Branch &Capture::branchOf(Stream &stream) {
  for (Branch &branch : branches)
    if (branch.stream == &stream)
      return branch;
  branches.push_back({&stream, {}});
  return branches.back();
}

void Capture::add(Stream &stream, Work work) {
  Branch &branch = branchOf(stream);
  GraphNode node;
  node.work = std::move(work);
  node.after = branch.last;
  node.branch = static_cast<size_t>(&branch - branches.data());
  branch.last = {graph->nodes.size()};
  graph->nodes.push_back(std::move(node));
}

bool Capture::isJoined() const {
  std::vector<bool> isBefore(graph->nodes.size());
  for (const Branch &branch : branches)
    if (branch.stream == origin)
      for (size_t node : branch.last)
        isBefore[node] = true;
  // Nodes are behind others that were added before them.
  for (size_t i = graph->nodes.size(); i-- > 0;)
    if (isBefore[i])
      for (size_t node : graph->nodes[i].after)
        isBefore[node] = true;
  return std::all_of(isBefore.begin(), isBefore.end(),
                     [](bool is) { return is; });
}

void GraphExec::launch(Stream &stream) {
  for (const CompletionPtr &completion : previous)
    device->wait(stream, completion);
  CompletionPtr begin = device->record(stream);
  std::vector<CompletionPtr> done;
  std::vector<bool> hasBegun(streams.size());
  for (const GraphNode &node : nodes) {
    std::vector<CompletionPtr> after;
    if (!hasBegun[node.branch])
      after.push_back(begin);
    hasBegun[node.branch] = true;
    for (size_t other : node.after)
      after.push_back(done[other]);
    done.push_back(device->issue(*streams[node.branch], node.work, after));
  }
  for (const CompletionPtr &completion : done)
    device->wait(stream, completion);
  previous = std::move(done);
}

} // namespace fsdp::emulator
