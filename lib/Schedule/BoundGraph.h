//===- BoundGraph.h - What precedes what in every schedule ------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_LIB_SCHEDULE_BOUNDGRAPH_H
#define FSDP_LIB_SCHEDULE_BOUNDGRAPH_H

#include "Contention.h"
#include "EventSearch.h"
#include "fsdp/Schedule/LowerBound.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"

#include <array>

namespace mlir::fsdp::sched {

/// Transfers that no other queue's transfer can run beside on their link: what
/// is used before the one can begin is over by then.
std::vector<bool> getApart(const ScheduleProblem &problem);

/// A reduction is over before a segment begins, or begins after it: beside it
/// there is no room for its result.
struct Choice {
  Id transfer, segment;
  /// No step takes less in which it begins after it.
  Time late = 0;
};

/// The step as a graph: segments, then floating ops, then transfers. An edge
/// says that one is over before the other begins, in whatever order memory and
/// the queues allow. Each node has a head, the least time before it can begin,
/// and a tail, the least time after it.
class BoundGraph {
public:
  /// @early: these are over before their segments begin.
  explicit BoundGraph(const ScheduleProblem &problem,
                      llvm::ArrayRef<Choice> early = {});
  Bound getBound() const;
  LeastTails getLeastTails() const;
  /// A transfer either is over before a segment begins, or begins after it.
  llvm::ArrayRef<Choice> getChoices() const { return choices; }

private:
  struct Jobs {
    std::array<std::vector<Job>, kNumQueues> queues;
    std::vector<LinkJobs> links;
  };
  Id segment(Id s) const { return s; }
  Id floating(Id f) const { return p.spine.size() + f; }
  Id transfer(Id t) const { return p.spine.size() + p.floating.size() + t; }
  void edge(Id from, Id to) {
    // Limits and memory may ask for the same; passLink counts each once.
    if (llvm::is_contained(predecessors[to], from))
      return;
    successors[from].push_back(to);
    predecessors[to].push_back(from);
  }
  void addMemoryEdges();
  void addReductionEdges(const std::vector<int64_t> &needed);
  void addFetchEdges(Queue queue, const std::vector<int64_t> &load);
  void addGatherEdges(Id gather, Id place, int64_t room,
                      const std::vector<int64_t> &freed);
  void findReductions(Queue queue, const std::vector<Id> &heldUntil);
  int64_t getReducedBytes(Id segment, size_t over, size_t ready) const;
  Time passLink(Id node, bool forward) const;
  void findOrder();
  void findHeads();
  void findTails();
  void raiseHeads();
  Time getContendedHead(Id segment) const;
  static Time runPreemptive(std::vector<Job> jobs);
  void addJobs(Id transfer, Time tail, LinkJobs &jobs) const;
  Jobs getJobs() const;
  Time getContended(Time least) const;

  const ScheduleProblem &p;
  std::vector<Time> work, head, tail;
  /// By transfer: see getApart.
  std::vector<bool> apart;
  std::vector<Id> reductions;
  /// Bytes of the first reductions, by how many; and by segment of the results
  /// that are held beside it.
  std::vector<int64_t> inputs, results, held;
  /// How many reductions' inputs are complete before a segment.
  std::vector<size_t> readyBefore;
  /// By segment: bytes on the border before it, with every reduction over that
  /// is ready.
  std::vector<int64_t> reduced;
  std::vector<Choice> choices;
  /// What findHeads does not find.
  std::vector<Time> leastHead;
  /// Nodes, each after its predecessors.
  std::vector<Id> order;
  std::vector<llvm::SmallVector<Id, 4>> successors, predecessors;
};
} // namespace mlir::fsdp::sched

#endif // FSDP_LIB_SCHEDULE_BOUNDGRAPH_H
