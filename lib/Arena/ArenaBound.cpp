//===- ArenaBound.cpp - The least that buffers need ----------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The heaviest set of buffers of which each two are needed together: an
// antichain of "may follow". By duality it is the least flow, from the step's
// begin to its end through the graph of events, that brings each buffer its
// bytes: bytes flow from a buffer to those that may follow it. So there is no
// need to look at pairs of buffers.
//
// A flow that brings enough is found by letting all of it wait on compute; it
// is as large as the most that compute sees in use. Then as much as possible
// is taken back, along the shortest ways first.
//
//===----------------------------------------------------------------------===//

#include "fsdp/Arena/ArenaBound.h"
#include "fsdp/Arena/ArenaPacking.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>

using namespace mlir::fsdp;
using llvm::ArrayRef;

constexpr int64_t kEndless = int64_t(1) << 60;

namespace {
class LeastFlow {
public:
  LeastFlow(const EventOrder &events, ArrayRef<ArenaBuffer> buffers);
  int64_t solve();
  /// The buffers across the cut that solve() ended with.
  std::vector<unsigned> getCut() const;

private:
  /// What else may flow from @from to @to; arcs 2k and 2k+1 are each other's
  /// reverse.
  struct Arc {
    int to;
    int64_t room;
  };
  /// @excess can be taken back.
  void addArc(int from, int to, int64_t excess);
  void addFlow();
  bool rank();
  int64_t push();
  int getBegin(int op) const { return 2 * op; }
  int getEnd(int op) const { return 2 * op + 1; }

  const EventOrder &events;
  ArrayRef<ArenaBuffer> buffers;
  int source, sink;
  /// From the source to the sink.
  int64_t value = 0;
  std::vector<Arc> arcs;
  std::vector<std::vector<int>> out;
  /// Distance from the sink in arcs with room; -1: there is no way.
  std::vector<int> level;
  std::vector<unsigned> next;
};
} // namespace

void LeastFlow::addArc(int from, int to, int64_t excess) {
  out[from].push_back(arcs.size());
  arcs.push_back({to, kEndless});
  out[to].push_back(arcs.size());
  arcs.push_back({from, excess});
}

LeastFlow::LeastFlow(const EventOrder &events, ArrayRef<ArenaBuffer> buffers)
    : events(events), buffers(buffers), source(2 * events.size()),
      sink(source + 1), out(source + 2) {
  addFlow();
}

/// Bytes leave compute for a buffer with the op that begins it, and are back
/// behind the op that ends it: for a start, where compute knows of it.
void LeastFlow::addFlow() {
  int n = events.size();
  std::vector<int64_t> leaving(n), returning(n), brought(n + 1);
  for (const ArenaBuffer &buffer : buffers) {
    leaving[buffer.begin] += buffer.size;
    returning[buffer.end] += buffer.size;
  }
  int64_t inUse = 0;
  for (int op = 0; op != n; ++op) {
    inUse += leaving[op] - brought[op];
    value = std::max(value, inUse);
    if (events.isStart(op))
      brought[std::min(events.getKnownFrom(op), n)] += returning[op];
    else
      inUse -= returning[op];
  }

  int64_t waiting = value;
  int compute = source;
  std::array<int, kNumQueues> last;
  last.fill(-1);
  for (int op = 0; op != n; ++op) {
    waiting -= leaving[op];
    if (!events.isStart(op)) {
      waiting += brought[op];
      addArc(compute, getBegin(op), waiting + leaving[op] - brought[op]);
      addArc(getBegin(op), getEnd(op), waiting);
      waiting += returning[op];
      compute = getEnd(op);
      continue;
    }
    addArc(compute, getBegin(op), leaving[op]);
    addArc(getBegin(op), getEnd(op), 0);
    int &previous = last[unsigned(events.getQueue(op))];
    if (previous >= 0)
      addArc(getEnd(previous), getBegin(op), 0);
    previous = op;
    for (int start : events.getBehind(op))
      addArc(getEnd(start), getBegin(op), 0);
    int known = events.getKnownFrom(op);
    addArc(getEnd(op), known < n ? getBegin(known) : sink, returning[op]);
  }
  addArc(compute, sink, waiting);
  // A buffer's own bytes cannot be taken back.
  for (const ArenaBuffer &buffer : buffers)
    addArc(getBegin(buffer.begin), getEnd(buffer.end), 0);
}

/// Whether there is a way from the sink to the source.
bool LeastFlow::rank() {
  level.assign(out.size(), -1);
  next.assign(out.size(), 0);
  std::vector<int> queue{sink};
  level[sink] = 0;
  for (size_t i = 0; i != queue.size() && level[source] < 0; ++i)
    for (int arc : out[queue[i]])
      if (int to = arcs[arc].to; arcs[arc].room > 0 && level[to] < 0) {
        level[to] = level[queue[i]] + 1;
        queue.push_back(to);
      }
  return level[source] >= 0;
}

/// Takes back what one shortest way can; 0 if there is none any more.
int64_t LeastFlow::push() {
  std::vector<int> way;
  for (int node = sink; node != source;) {
    if (next[node] == out[node].size()) {
      if (way.empty())
        return 0;
      // Nobody else has to come here.
      level[node] = -1;
      node = arcs[way.back() ^ 1].to;
      way.pop_back();
      continue;
    }
    int arc = out[node][next[node]];
    int to = arcs[arc].to;
    if (arcs[arc].room > 0 && level[to] == level[node] + 1) {
      way.push_back(arc);
      node = to;
    } else {
      ++next[node];
    }
  }
  int64_t room = kEndless;
  for (int arc : way)
    room = std::min(room, arcs[arc].room);
  for (int arc : way) {
    arcs[arc].room -= room;
    arcs[arc ^ 1].room += room;
  }
  return room;
}

int64_t LeastFlow::solve() {
  while (rank())
    while (int64_t back = push())
      value -= back;
  return value;
}

std::vector<unsigned> LeastFlow::getCut() const {
  std::vector<unsigned> cut;
  for (auto [i, buffer] : llvm::enumerate(buffers))
    if (level[getBegin(buffer.begin)] < 0 && level[getEnd(buffer.end)] >= 0)
      cut.push_back(i);
  return cut;
}

std::vector<unsigned>
mlir::fsdp::getHeaviestTogether(const EventOrder &events,
                                ArrayRef<ArenaBuffer> buffers) {
  LeastFlow flow(events, buffers);
  flow.solve();
  return flow.getCut();
}

int64_t mlir::fsdp::getArenaBound(const EventOrder &events,
                                  ArrayRef<ArenaBuffer> buffers) {
  return LeastFlow(events, buffers).solve();
}
