//===- ExactSearch.cpp - The best schedule of a small step ----------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Schedule/ExactSearch.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cassert>
#include <unordered_map>

using namespace mlir::fsdp;
using namespace mlir::fsdp::sched;
using llvm::SmallVector;

namespace {
/// A prefix of a program and when its parts end.
struct Prefix {
  int segments = 0, tails = 0, casts = 0;
  std::array<int, kNumQueues> begun = {};
  /// By link: its transfers in the order of issue, and how many of them compute
  /// knows to be complete.
  std::vector<std::vector<Id>> chain;
  std::vector<int> known;
  Time compute = 0;
  std::array<Time, kNumQueues> queueFree = {};
  std::vector<Time> linkFree;
  /// By transfer: its end, or -1 if it is not issued.
  std::vector<Time> end;
  /// What has been issued, to hand it back.
  std::vector<LineOp> line;
  std::vector<Id> issue, place, waitedAt;
};

class Exact {
public:
  Exact(const ScheduleProblem &p, Time below, int64_t maxStates);
  ExactResult run();

private:
  void visit(const Prefix &x);
  bool appendSegment(Prefix &x) const;
  bool appendTail(Prefix &x) const;
  bool appendCast(Prefix &x) const;
  bool appendStart(Prefix &x, int queue) const;
  /// The heaviest state of all that compute at this place may see.
  int64_t getHeaviest(const Prefix &x, int64_t spine) const;
  int64_t getHeaviestOf(const Prefix &x, int link) const;
  void learn(Prefix &x, Id t) const;
  Time getBound(const Prefix &x) const;
  bool isBeaten(const Prefix &x);
  bool isAlive(const Prefix &x, Id t) const;
  void findTails();
  Schedule toSchedule(const Prefix &x) const;

  const ScheduleProblem &p;
  std::array<std::vector<Id>, kNumQueues> order;
  std::vector<Id> tailOrder, castOrder;
  std::vector<int> lastTail;
  std::vector<Id> floor;
  std::vector<SmallVector<Id, 2>> before;
  /// Least time behind each segment, transfer and tail.
  std::vector<Time> behindSegment, behindTransfer, behindTail;
  ExactResult result;
  Time best;
  int64_t maxStates;
  std::unordered_map<std::string, std::vector<std::vector<Time>>> seen;
};
} // namespace

Exact::Exact(const ScheduleProblem &p, Time below, int64_t maxStates)
    : p(p), tailOrder(getTailOrder(p)), lastTail(getLastTail(p)),
      floor(getPlaceFloor(p).place), before(getPredecessors(p)), best(below),
      maxStates(maxStates) {
  assert(p.transfers.size() <= 64 && "expected a small step");
  for (int q = 1; q != kNumQueues; ++q)
    order[q] = getQueueOrder(p, Queue(q));
  for (Queue queue : {Queue::AllGather, Queue::H2D})
    llvm::append_range(castOrder, getCastOrder(p, queue));
  findTails();
}

void Exact::findTails() {
  int segments = p.spine.size(), tails = tailOrder.size();
  behindTail.assign(tails + 1, 0);
  for (int i = tails; i-- > 0;)
    behindTail[i] = behindTail[i + 1] + p.floating[tailOrder[i]].work;
  behindSegment.assign(segments + 1, 0);
  for (int s = segments; s-- > 0;)
    behindSegment[s] = behindSegment[s + 1] + p.spine[s].work;
  behindTransfer.assign(p.transfers.size(), 0);
  for (size_t round = 0; round <= p.transfers.size(); ++round)
    for (auto [t, x] : llvm::enumerate(p.transfers)) {
      Time &behind = behindTransfer[t];
      if (x.firstUse >= 0)
        behind = std::max(behind, behindSegment[x.firstUse]);
      for (int i = 0; i != tails; ++i)
        if (llvm::is_contained(p.floating[tailOrder[i]].after, Id(t)))
          behind = std::max(behind, behindTail[i]);
      for (auto [u, y] : llvm::enumerate(p.transfers))
        if (llvm::is_contained(before[u], Id(t)))
          behind = std::max(behind, y.cost.total() + behindTransfer[u]);
    }
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

/// The result of @t, if it has begun, is still needed.
bool Exact::isAlive(const Prefix &x, Id t) const {
  if (p.transfers[t].lastUse >= 0)
    return p.transfers[t].lastUse >= x.segments;
  return lastTail[t] >= x.tails;
}

/// Along a link: nothing under way, or the last one that has begun.
int64_t Exact::getHeaviestOf(const Prefix &x, int link) const {
  const std::vector<Id> &chain = x.chain[link];
  int64_t results = 0, inputs = 0;
  auto inputOf = [&](Id t) {
    const Transfer &transfer = p.transfers[t];
    int64_t bytes = transfer.srcBytes && transfer.srcBegin < x.segments
                        ? transfer.srcBytes
                        : 0;
    for (int i = 0; i != x.casts; ++i)
      if (p.floating[castOrder[i]].before == t)
        bytes += p.floating[castOrder[i]].heldBytes;
    return bytes;
  };
  for (auto [t, transfer] : llvm::enumerate(p.transfers))
    if (transfer.cost.link == link)
      inputs += inputOf(t);
  for (int i = 0; i != x.known[link]; ++i) {
    inputs -= inputOf(chain[i]);
    results += isAlive(x, chain[i]) ? p.transfers[chain[i]].dstBytes : 0;
  }
  int64_t most = results + inputs;
  for (int i = x.known[link], e = chain.size(); i != e; ++i) {
    results += isAlive(x, chain[i]) ? p.transfers[chain[i]].dstBytes : 0;
    most = std::max(most, results + inputs);
    inputs -= inputOf(chain[i]);
  }
  return most;
}

int64_t Exact::getHeaviest(const Prefix &x, int64_t spine) const {
  int64_t bytes = p.fixedBytes + spine;
  for (int link = 0; link != p.numLinks; ++link)
    bytes += getHeaviestOf(x, link);
  return bytes;
}

/// Compute waited for @t: it and what its link did before are complete.
void Exact::learn(Prefix &x, Id t) const {
  int link = p.transfers[t].cost.link;
  auto at = llvm::find(x.chain[link], t);
  x.known[link] = std::max<int>(x.known[link], at - x.chain[link].begin() + 1);
  for (Id a : before[t])
    learn(x, a);
}

//===----------------------------------------------------------------------===//
// Programs
//===----------------------------------------------------------------------===//

bool Exact::appendSegment(Prefix &x) const {
  if (x.segments == int(p.spine.size()))
    return false;
  int s = x.segments;
  for (auto [t, transfer] : llvm::enumerate(p.transfers))
    if (transfer.firstUse == s) {
      if (x.end[t] < 0)
        return false;
      x.compute = std::max(x.compute, x.end[t]);
      learn(x, t);
    }
  // What segment s takes counts from here; what dies with it, behind it. Where
  // it does not fit, compute waits for as many inputs as it must.
  Prefix inside = x;
  auto heaviest = [&] {
    inside.segments = s + 1;
    int64_t staged = getHeaviest(inside, 0);
    // isAlive must still see s.
    int64_t dying = 0;
    for (auto [t, transfer] : llvm::enumerate(p.transfers))
      if (transfer.lastUse == s && x.end[t] >= 0)
        dying += transfer.dstBytes;
    return staged + dying + p.spine[s].live;
  };
  while (heaviest() > p.budget) {
    int link = -1;
    for (int l = 0; l != p.numLinks; ++l)
      if (inside.known[l] < int(x.chain[l].size()) &&
          (link < 0 || x.end[x.chain[l][inside.known[l]]] <
                           x.end[x.chain[link][inside.known[link]]]))
        link = l;
    if (link < 0)
      return false;
    Id t = x.chain[link][inside.known[link]];
    x.compute = std::max(x.compute, x.end[t]);
    x.waitedAt[t] = std::min<Id>(x.waitedAt[t], x.line.size());
    inside.known[link]++;
    x.known = inside.known;
  }
  x.compute += p.spine[s].work;
  x.line.push_back({false, s});
  x.segments = s + 1;
  return true;
}

bool Exact::appendTail(Prefix &x) const {
  if (x.tails == int(tailOrder.size()))
    return false;
  const FloatingOp &op = p.floating[tailOrder[x.tails]];
  for (Id t : op.after) {
    if (x.end[t] < 0)
      return false;
    x.compute = std::max(x.compute, x.end[t]);
    learn(x, t);
  }
  x.compute += op.work;
  x.line.push_back({true, tailOrder[x.tails]});
  ++x.tails;
  return true;
}

bool Exact::appendCast(Prefix &x) const {
  if (x.casts == int(castOrder.size()))
    return false;
  x.line.push_back({true, castOrder[x.casts]});
  x.compute += p.floating[castOrder[x.casts++]].work;
  return getHeaviest(x, getBorderBytes(p, x.segments)) <= p.budget;
}

bool Exact::appendStart(Prefix &x, int queue) const {
  if (x.begun[queue] == int(order[queue].size()))
    return false;
  Id t = order[queue][x.begun[queue]];
  const Transfer &transfer = p.transfers[t];
  if (x.segments < floor[t])
    return false;
  for (size_t i = x.casts; i != castOrder.size(); ++i)
    if (p.floating[castOrder[i]].before == t)
      return false;
  int link = transfer.cost.link;
  Time begin = std::max({x.compute, x.queueFree[queue], x.linkFree[link]});
  for (Id a : before[t]) {
    if (x.end[a] < 0)
      return false;
    begin = std::max(begin, x.end[a]);
  }
  x.end[t] = begin + transfer.cost.total();
  x.queueFree[queue] = x.linkFree[link] = x.end[t];
  x.issue.push_back(t);
  x.place[t] = x.line.size();
  x.chain[link].push_back(t);
  ++x.begun[queue];
  return getHeaviest(x, getBorderBytes(p, x.segments)) <= p.budget;
}

//===----------------------------------------------------------------------===//
// The search
//===----------------------------------------------------------------------===//

Time Exact::getBound(const Prefix &x) const {
  Time casts = 0;
  for (size_t i = x.casts; i != castOrder.size(); ++i)
    casts += p.floating[castOrder[i]].work;
  Time bound =
      x.compute + casts + behindSegment[x.segments] + behindTail[x.tails];
  std::vector<Time> left(p.numLinks), tail(p.numLinks, -1);
  for (int q = 1; q != kNumQueues; ++q) {
    Time free = x.queueFree[q];
    for (int i = x.begun[q], e = order[q].size(); i != e; ++i) {
      Id t = order[q][i];
      int link = p.transfers[t].cost.link;
      // Its place is not before this one; and its input takes its time.
      Time begin = std::max({free, x.linkFree[link], x.compute});
      if (floor[t] > x.segments)
        begin = std::max(begin, x.compute + behindSegment[x.segments] -
                                    behindSegment[floor[t]]);
      free = begin + p.transfers[t].cost.total();
      bound = std::max(bound, free + behindTransfer[t]);
      left[link] += p.transfers[t].cost.total();
      if (tail[link] < 0 || behindTransfer[t] < tail[link])
        tail[link] = behindTransfer[t];
    }
  }
  for (int link = 0; link != p.numLinks; ++link)
    if (left[link])
      bound = std::max(bound, std::max(x.linkFree[link], x.compute) +
                                  left[link] + tail[link]);
  for (size_t t = 0; t != p.transfers.size(); ++t) {
    if (x.end[t] < 0)
      continue;
    const Transfer &transfer = p.transfers[t];
    if (transfer.firstUse >= x.segments)
      bound = std::max(bound, x.end[t] + behindSegment[transfer.firstUse]);
    bound = std::max(bound, x.end[t]);
  }
  for (int i = x.tails, e = tailOrder.size(); i != e; ++i)
    for (Id t : p.floating[tailOrder[i]].after)
      if (x.end[t] >= 0)
        bound = std::max(bound, x.end[t] + behindTail[i]);
  return bound;
}

/// Another prefix has issued the same, compute knows the same, and nothing of
/// it ends later.
bool Exact::isBeaten(const Prefix &x) {
  std::string key;
  auto add = [&](int v) { key.push_back(char(v)); };
  add(x.segments), add(x.tails), add(x.casts);
  for (int q = 1; q != kNumQueues; ++q)
    add(x.begun[q]);
  std::vector<Time> times = {x.compute};
  for (int link = 0; link != p.numLinks; ++link) {
    add(x.known[link]);
    add(-1);
    const std::vector<Id> &chain = x.chain[link];
    for (size_t i = x.known[link]; i != chain.size(); ++i)
      add(chain[i]);
    times.push_back(x.linkFree[link]);
  }
  for (int q = 1; q != kNumQueues; ++q)
    times.push_back(x.queueFree[q]);
  // Whose end someone may still ask for.
  for (size_t t = 0; t != p.transfers.size(); ++t)
    if (x.end[t] >= 0) {
      int link = p.transfers[t].cost.link;
      auto at = llvm::find(x.chain[link], Id(t)) - x.chain[link].begin();
      if (at >= x.known[link])
        times.push_back(x.end[t]);
    }
  std::vector<std::vector<Time>> &others = seen[key];
  auto beats = [](const std::vector<Time> &a, const std::vector<Time> &b) {
    for (size_t i = 0; i != a.size(); ++i)
      if (a[i] > b[i])
        return false;
    return true;
  };
  for (const auto &other : others)
    if (beats(other, times))
      return true;
  llvm::erase_if(others, [&](const auto &o) { return beats(times, o); });
  others.push_back(std::move(times));
  return false;
}

void Exact::visit(const Prefix &x) {
  if (result.states >= maxStates) {
    result.complete = false;
    return;
  }
  Time bound = getBound(x);
  if (bound >= best || isBeaten(x))
    return;
  ++result.states;
  bool whole = x.segments == int(p.spine.size()) &&
               x.tails == int(tailOrder.size()) &&
               x.casts == int(castOrder.size());
  for (int q = 1; whole && q != kNumQueues; ++q)
    whole = x.begun[q] == int(order[q].size());
  if (whole) {
    best = bound;
    result.makespan = bound;
    result.schedule = toSchedule(x);
    return;
  }
  // The promising first: a good schedule early cuts the rest off.
  std::vector<std::pair<Time, Prefix>> next;
  auto consider = [&](Prefix y, bool ok) {
    if (ok)
      next.push_back({getBound(y), std::move(y)});
  };
  for (int q = 1; q != kNumQueues; ++q) {
    Prefix y = x;
    bool ok = appendStart(y, q);
    consider(std::move(y), ok);
  }
  for (auto append :
       {&Exact::appendSegment, &Exact::appendTail, &Exact::appendCast}) {
    Prefix y = x;
    bool ok = (this->*append)(y);
    consider(std::move(y), ok);
  }
  llvm::sort(next, [](const auto &a, const auto &b) {
    auto rank = [](const auto &entry) {
      const Prefix &y = entry.second;
      int issued = 0;
      for (int begun : y.begun)
        issued += begun;
      return std::make_tuple(entry.first, -issued, y.tails, y.segments);
    };
    return rank(a) < rank(b);
  });
  for (const auto &entry : next)
    visit(entry.second);
}

Schedule Exact::toSchedule(const Prefix &x) const {
  Schedule s;
  s.line = x.line;
  s.issue = x.issue;
  s.place = x.place;
  s.known = x.waitedAt;
  s.after.resize(p.transfers.size());
  s.placeCause.assign(p.transfers.size(), Cause::None);
  for (const std::vector<Id> &chain : x.chain)
    for (size_t i = 1; i < chain.size(); ++i)
      if (p.transfers[chain[i]].queue != p.transfers[chain[i - 1]].queue)
        s.after[chain[i]].push_back(chain[i - 1]);
  s.makespan = best;
  return s;
}

ExactResult Exact::run() {
  Prefix start;
  start.chain.resize(p.numLinks);
  start.known.resize(p.numLinks);
  start.linkFree.resize(p.numLinks);
  start.end.assign(p.transfers.size(), -1);
  start.place.resize(p.transfers.size());
  start.waitedAt.assign(p.transfers.size(), p.spine.size() + p.floating.size());
  visit(start);
  return result;
}

ExactResult mlir::fsdp::sched::searchExactly(const ScheduleProblem &problem,
                                             Time below, int64_t maxStates) {
  return Exact(problem, below, maxStates).run();
}
