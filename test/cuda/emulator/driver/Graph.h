//===- Graph.h - Graphs, and streams that are captured into them ----------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_EMULATOR_DRIVER_GRAPH_H
#define FSDP_EMULATOR_DRIVER_GRAPH_H

#include "driver/Platform.h"

namespace fsdp::emulator {

struct GraphNode {
  Work work;
  /// The nodes that are done before it.
  std::vector<size_t> after;
  /// Nodes of one branch run one after another.
  size_t branch = 0;
};

struct Graph {
  Device *device = nullptr;
  std::vector<GraphNode> nodes;
};

/// Streams whose calls become one graph.
struct Capture {
  std::shared_ptr<Graph> graph = std::make_shared<Graph>();
  Stream *origin = nullptr;
  bool isInvalid = false;
  /// For each stream: its branch, and what its next node is behind.
  struct Branch {
    Stream *stream = nullptr;
    std::vector<size_t> last;
  };
  std::vector<Branch> branches;

  Branch &branchOf(Stream &stream);
  void add(Stream &stream, Work work);
  /// Whether each node is before one of those that the origin is behind.
  bool isJoined() const;
};

struct GraphExec {
  Device *device = nullptr;
  std::vector<GraphNode> nodes;
  /// One for each branch.
  std::vector<StreamPtr> streams;
  /// Of the launch before, which the next one is behind.
  std::vector<CompletionPtr> previous;

  /// Behind what `stream` was given before; what it is given next comes behind
  /// all nodes.
  void launch(Stream &stream);
};

} // namespace fsdp::emulator

#endif // FSDP_EMULATOR_DRIVER_GRAPH_H
