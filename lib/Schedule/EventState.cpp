//===- EventState.cpp - What a search of events reads ---------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "EventState.h"

#include "llvm/ADT/STLExtras.h"

#include <numeric>

using namespace mlir::fsdp;
using namespace mlir::fsdp::sched;
using namespace mlir::fsdp::sched::events;
using llvm::SmallVector;

EventStep::EventStep(const ScheduleProblem &p, const LeastTails &behind)
    : p(p), placeOf(p.transfers.size()) {
  size_t n = p.spine.size();
  spineAfter.assign(n + 1, 0);
  for (size_t s = n; s-- > 0;)
    spineAfter[s] = spineAfter[s + 1] + p.spine[s].work;
  buildStreams(behind);
  buildCasts();
  buildTails();
}

void EventStep::buildStreams(const LeastTails &behind) {
  size_t n = p.spine.size();
  needs.resize(n);
  takes.assign(n, 0);
  frees.assign(n, 0);
  for (int s = 0; s != kStreams; ++s) {
    std::vector<Id> order = getQueueOrder(p, Queue(s + 1));
    streams[s].resize(order.size());
    for (auto [i, t] : llvm::enumerate(order))
      placeOf[t] = {s, i};
  }
  PlaceFloor floor = getPlaceFloor(p);
  std::vector<SmallVector<Id, 2>> before = getPredecessors(p);
  for (auto [t, x] : llvm::enumerate(p.transfers)) {
    auto [s, i] = placeOf[t];
    Item &item = streams[s][i];
    item.transfer = t;
    item.link = x.cost.link;
    item.latency = x.cost.latency;
    item.work = x.cost.work;
    item.tail = behind.transfers[t];
    item.floor = floor.place[t];
    item.floorCause = floor.fromLimit[t] ? Cause::Limit : Cause::Data;
    item.takes = x.dstBytes;
    item.frees = x.srcBytes;
    for (Id a : before[t])
      item.after.push_back({placeOf[a].first, placeOf[a].second + 1});
    if (x.firstUse >= 0) {
      needs[x.firstUse][s] = std::max(needs[x.firstUse][s], i + 1);
      frees[x.lastUse] += x.dstBytes;
    }
    if (x.srcBytes)
      takes[x.srcBegin] += x.srcBytes;
  }
  for (int s = 0; s != kStreams; ++s) {
    size_t count = streams[s].size();
    leastTail[s].assign(count + 1, kForever);
    linkWork[s].assign(count + 1, SmallVector<Time, 4>(p.numLinks, 0));
    for (size_t i = count; i-- > 0;) {
      const Item &item = streams[s][i];
      leastTail[s][i] = std::min(leastTail[s][i + 1], item.tail);
      linkWork[s][i] = linkWork[s][i + 1];
      linkWork[s][i][item.link] += item.work;
    }
  }
}

void EventStep::buildCasts() {
  for (int s = 0; s != kStreams; ++s) {
    casts[s] = getCastOrder(p, Queue(s + 1));
    for (auto [i, f] : llvm::enumerate(casts[s])) {
      Item &item = streams[s][placeOf[p.floating[f].before].second];
      item.casts = i + 1;
      item.frees += p.floating[f].heldBytes;
    }
    castsAfter[s].assign(casts[s].size() + 1, 0);
    for (size_t i = casts[s].size(); i-- > 0;)
      castsAfter[s][i] = castsAfter[s][i + 1] + p.floating[casts[s][i]].work;
  }
}

void EventStep::buildTails() {
  tails = getTailOrder(p);
  int32_t count = tails.size();
  tailsAfter.assign(count + 1, 0);
  for (int32_t i = count; i-- > 0;)
    tailsAfter[i] = tailsAfter[i + 1] + p.floating[tails[i]].work;
  tailsFreed.assign(count + 1, 0);
  std::vector<int> lastTail = getLastTail(p);
  for (auto [t, x] : llvm::enumerate(p.transfers))
    if (x.firstUse < 0 && lastTail[t] >= 0 && lastTail[t] < count)
      tailsFreed[lastTail[t] + 1] += x.dstBytes;
  std::partial_sum(tailsFreed.begin(), tailsFreed.end(), tailsFreed.begin());
  for (int s = 0; s != kStreams; ++s)
    tailsReady[s].assign(streams[s].size() + 1, count);
  for (int32_t i = count; i-- > 0;)
    for (Id a : p.floating[tails[i]].after) {
      auto [s, at] = placeOf[a];
      for (int32_t over = at; over >= 0 && tailsReady[s][over] > i; --over)
        tailsReady[s][over] = i;
    }
}

int32_t EventStep::getTailsReady(const Key &k) const {
  int32_t ready = tails.size();
  for (int s = 0; s != kStreams; ++s)
    ready = std::min(ready, tailsReady[s][k.over(s)]);
  return ready;
}

int64_t EventStep::spineBytes(const Key &k) const {
  return k.running == Key::Segment ? p.spine[k.segments].live
                                   : getBorderBytes(p, k.segments);
}

bool EventStep::isEnd(const Label &x) const {
  if (size_t(x.key.segments) != p.spine.size() || x.key.running ||
      x.key.underWay || size_t(x.tails) != tails.size())
    return false;
  for (int s = 0; s != kStreams; ++s)
    if (size_t(x.key.begun[s]) != streams[s].size())
      return false;
  return true;
}

bool EventStep::isReady(const Label &x, int s) const {
  const Item &item = streams[s][x.key.begun[s]];
  // The last cast that has begun may not be over.
  int32_t castsOver = x.casts[s] - (x.key.running == Key::Cast + s);
  return item.floor <= x.key.segments && item.casts <= castsOver;
}
