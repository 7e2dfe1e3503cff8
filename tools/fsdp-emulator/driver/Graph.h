//===- Graph.h - Graphs, and streams that are captured into them ----------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_EMULATOR_DRIVER_GRAPH_H
#define FSDP_EMULATOR_DRIVER_GRAPH_H

#include "driver/Platform.h"

#include <atomic>
#include <thread>

namespace fsdp::emulator {

struct GraphNode {
  Work work;
  /// The nodes that are done before it.
  std::vector<size_t> after;
  /// Nodes of one branch run one after another.
  size_t branch = 0;
  /// Of the stream that was captured.
  int priority = 0;
};

struct Graph {
  Device *device = nullptr;
  std::vector<GraphNode> nodes;
};

/// Streams whose calls become one graph.
struct Capture {
  std::shared_ptr<Graph> graph = std::make_shared<Graph>();
  Stream *origin = nullptr;
  cuda::CaptureMode mode = cuda::CaptureGlobal;
  /// That began it.
  std::thread::id thread;
  /// A call that it does not survive was made, maybe by another thread.
  std::atomic<bool> isInvalid{false};
  bool isEnded = false;
  /// For each stream: its branch, and what its next node is behind.
  struct Branch {
    Stream *stream = nullptr;
    std::vector<size_t> last;
    /// Nodes of waits that FSDP_EMULATOR_SKIP left out since the last node.
    std::vector<size_t> skipped;
  };
  std::vector<Branch> branches;

  /// Takes the stream into the capture if it is not in it yet.
  Branch &branchOf(Stream &stream);
  void add(Stream &stream, Work work);
  /// What the branch's next node is after, where an event is recorded.
  std::vector<size_t> record(Stream &stream);
  /// Whether each node is before one of those that the origin is behind.
  bool isJoined() const;
  /// Whether it has a stream that the legacy stream waits for.
  bool isBlocking() const;

private:
  /// For each node, whether it is before one that the branch is after.
  std::vector<bool> nodesBefore(const Branch &branch) const;
  void reportImpliedWaits(Branch &branch) const;
};
using CapturePtr = std::shared_ptr<Capture>;

/// Captures of all devices and threads that have begun and not ended.
void beginCapture(const CapturePtr &capture);
void endCapture(const CapturePtr &capture);
/// Makes the calling thread forbidden what captures in `mode` forbid, and
/// `mode` what was there before.
void exchangeCaptureMode(cuda::CaptureMode &mode);

/// Throws where a call before has broken the capture.
void expectValid(const Capture &capture);
/// Breaks it and says why.
[[noreturn]] void invalidate(Capture &capture, cuda::Result code,
                             const std::string &message);

struct GraphExec {
  Device *device = nullptr;
  std::vector<GraphNode> nodes;
  /// Whether nodes have their priorities, not the one of the stream in which
  /// the graph is launched.
  bool hasNodePriorities = false;
  /// One for each branch.
  std::vector<StreamPtr> streams;
  /// Of the launch before, which the next one is behind.
  std::vector<CompletionPtr> previous;

  /// Of the device's memory.
  uint64_t bytes() const { return 1024 * nodes.size(); }
  /// Behind what `stream` was given before; what it is given next comes behind
  /// all nodes.
  void launch(Stream &stream);
};

} // namespace fsdp::emulator

#endif // FSDP_EMULATOR_DRIVER_GRAPH_H
