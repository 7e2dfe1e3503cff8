//===- LowerBound.cpp - What no schedule can beat -------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Analysis/Schedule/LowerBound.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cassert>
#include <queue>

using namespace mlir::fsdp;
using namespace mlir::fsdp::sched;
using llvm::SmallVector;

namespace {
/// The step as a graph: segments, then floating ops, then transfers.
class Graph {
public:
  explicit Graph(const ScheduleProblem &problem);
  Bound getBound() const;

private:
  struct Job {
    Time head, work, tail;
  };
  struct Jobs {
    std::array<std::vector<Job>, kNumQueues> queues;
    /// Of each link: work without latency, which does not need it.
    std::vector<std::vector<Job>> links;
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
  Time passLink(Id node, bool forward) const;
  void findHeadsAndTails();
  static Time runPreemptive(std::vector<Job> jobs);
  Time getSlowed(const std::vector<Job> &slowed, Queue queue,
                 const std::vector<Job> &others, QueueMask otherQueues) const;
  Jobs getJobs() const;
  Time getContended() const;

  const ScheduleProblem &p;
  std::vector<Time> work, head, tail;
  std::vector<SmallVector<Id, 4>> successors, predecessors;
};
} // namespace

Graph::Graph(const ScheduleProblem &problem) : p(problem) {
  size_t n = transfer(p.transfers.size());
  work.resize(n);
  successors.resize(n);
  predecessors.resize(n);
  for (size_t s = 0; s != p.spine.size(); ++s) {
    work[s] = p.spine[s].work;
    if (s)
      edge(s - 1, s);
  }
  for (auto [f, op] : llvm::enumerate(p.floating)) {
    work[floating(f)] = op.work;
    if (op.before >= 0)
      edge(floating(f), transfer(op.before));
    for (Id t : op.after)
      edge(transfer(t), floating(f));
  }
  std::vector<Id> tails = getTailOrder(p);
  for (size_t i = 1; i < tails.size(); ++i)
    edge(floating(tails[i - 1]), floating(tails[i]));
  PlaceFloor floor = getPlaceFloor(p);
  std::vector<SmallVector<Id, 2>> before = getPredecessors(p);
  for (auto [t, x] : llvm::enumerate(p.transfers)) {
    work[transfer(t)] = x.cost.total();
    if (floor.place[t])
      edge(segment(floor.place[t] - 1), transfer(t));
    if (x.firstUse >= 0)
      edge(transfer(t), segment(x.firstUse));
    for (Id a : before[t])
      edge(transfer(a), transfer(t));
  }
  for (int q = 1; q != kNumQueues; ++q) {
    std::vector<Id> order = getQueueOrder(p, Queue(q));
    for (size_t i = 1; i < order.size(); ++i)
      edge(transfer(order[i - 1]), transfer(order[i]));
  }
  addMemoryEdges();
  findHeadsAndTails();
}

/// Gathers start in the order of first use and the spine is in order: so from
/// its start on, a gather lies beside all earlier ones that are still used, and
/// beside what the segments cannot be without. Where that does not fit, it
/// starts behind the segment.
void Graph::addMemoryEdges() {
  if (p.budget >= kNoBudget)
    return;
  size_t n = p.spine.size();
  std::vector<int64_t> load(n + 1), freed(n + 1);
  auto add = [&](Id from, Id to, int64_t bytes) {
    if (from > to)
      return;
    load[from] += bytes;
    load[to + 1] -= bytes;
  };
  // Tails run in order, so a result waits for what any earlier tail reads.
  std::vector<Id> readyOf(p.transfers.size(), -1);
  for (size_t round = 0; round != 3; ++round)
    for (auto [t, x] : llvm::enumerate(p.transfers)) {
      readyOf[t] = std::max(readyOf[t], x.ready);
      for (Id a : x.after)
        readyOf[t] = std::max(readyOf[t], readyOf[a]);
    }
  std::vector<Id> tailReady;
  for (Id f : getTailOrder(p)) {
    Id ready = tailReady.empty() ? -1 : tailReady.back();
    for (Id t : p.floating[f].after)
      ready = std::max(ready, readyOf[t]);
    tailReady.push_back(ready);
  }
  std::vector<int> lastTail = getLastTail(p);
  std::vector<Id> gathers;
  for (auto [t, x] : llvm::enumerate(p.transfers)) {
    if (isFetch(x.queue)) {
      gathers.push_back(t);
      freed[x.lastUse + 1] += x.dstBytes;
      continue;
    }
    if (x.srcBytes)
      add(x.srcBegin, x.ready, x.srcBytes);
    Id last = x.lastUse;
    if (last < 0 && lastTail[t] >= 0)
      last = size_t(lastTail[t]) < tailReady.size() ? tailReady[lastTail[t]]
                                                    : Id(n) - 1;
    // It exists from its start on: surely once something waits for it.
    if (x.lastUse >= 0)
      add(x.firstUse, last, x.dstBytes);
  }
  for (size_t s = 0; s != n; ++s) {
    if (s) {
      load[s] += load[s - 1];
      freed[s] += freed[s - 1];
    }
  }
  llvm::sort(gathers, [&](Id a, Id b) {
    return std::make_pair(p.transfers[a].firstUse, a) <
           std::make_pair(p.transfers[b].firstUse, b);
  });
  // What each segment needs at least: with the gathers that it uses.
  std::vector<int64_t> needed(n + 1);
  for (Id t : gathers) {
    needed[p.transfers[t].firstUse] += p.transfers[t].dstBytes;
    needed[p.transfers[t].lastUse + 1] -= p.transfers[t].dstBytes;
  }
  for (size_t s = 1; s < n; ++s)
    needed[s] += needed[s - 1];
  for (size_t s = 0; s != n; ++s)
    needed[s] += p.spine[s].live + load[s];
  addReductionEdges(needed);

  // Only gathers of one queue are ordered among each other.
  bool ordered = llvm::all_of(gathers, [&](Id t) {
    return p.transfers[t].queue == p.transfers[gathers[0]].queue;
  });
  if (!ordered)
    return;
  int64_t room = p.budget - p.fixedBytes;
  Id place = 0;
  for (Id t : gathers) {
    room -= p.transfers[t].dstBytes;
    for (Id s = p.transfers[t].firstUse - 1; s >= place; --s)
      if (p.spine[s].live + load[s] - freed[s] > room) {
        place = s + 1;
        break;
      }
    if (place)
      edge(segment(place - 1), transfer(t));
  }
}

/// Inputs of reductions that are not over lie beside what a segment needs.
/// Reductions are over in order: so if the inputs from some reduction on do not
/// fit, that one is over before the segment begins.
void Graph::addReductionEdges(const std::vector<int64_t> &needed) {
  std::vector<Id> order = getQueueOrder(p, Queue::Reduce);
  int64_t room = p.budget - p.fixedBytes, waiting = 0;
  size_t first = 0, last = 0;
  for (Id s = 0, e = p.spine.size(); s != e; ++s) {
    for (; last != order.size() && p.transfers[order[last]].ready < s; ++last)
      waiting += p.transfers[order[last]].srcBytes;
    Id over = -1;
    for (; first != last && needed[s] + waiting > room; ++first) {
      over = order[first];
      waiting -= p.transfers[over].srcBytes;
    }
    if (over >= 0)
      edge(transfer(over), segment(s));
  }
}

/// The transfers right before @node (behind it, if not @forward) that share a
/// link run one after the other: when the last of them can be over.
Time Graph::passLink(Id node, bool forward) const {
  struct Entry {
    Id link;
    Time from, work;
  };
  SmallVector<Entry, 4> entries;
  for (Id other : forward ? predecessors[node] : successors[node]) {
    if (other < transfer(0))
      continue;
    const LinkCost &cost = p.transfers[other - transfer(0)].cost;
    // Latency comes before work: seen from the end it hides behind others.
    entries.push_back({cost.link,
                       forward ? head[other] + cost.latency : tail[other],
                       cost.work});
  }
  if (entries.size() < 2)
    return 0;
  llvm::sort(entries, [](const Entry &a, const Entry &b) {
    return std::make_tuple(a.link, a.from, a.work) <
           std::make_tuple(b.link, b.from, b.work);
  });
  Time most = 0, end = 0;
  Id link = -1;
  for (const Entry &entry : entries) {
    end = (entry.link == link ? std::max(end, entry.from) : entry.from) +
          entry.work;
    link = entry.link;
    most = std::max(most, end);
  }
  return most;
}

void Graph::findHeadsAndTails() {
  size_t n = work.size();
  std::vector<int> open(n);
  for (auto &list : successors)
    for (Id to : list)
      ++open[to];
  std::vector<Id> order;
  for (size_t i = 0; i != n; ++i)
    if (!open[i])
      order.push_back(i);
  head.assign(n, 0);
  tail.assign(n, 0);
  for (size_t i = 0; i != order.size(); ++i) {
    Id from = order[i];
    head[from] = std::max(head[from], passLink(from, /*forward=*/true));
    for (Id to : successors[from]) {
      head[to] = std::max(head[to], head[from] + work[from]);
      if (--open[to] == 0)
        order.push_back(to);
    }
  }
  assert(order.size() == n && "expected a step without circles");
  for (Id from : llvm::reverse(order)) {
    for (Id to : successors[from])
      tail[from] = std::max(tail[from], work[to] + tail[to]);
    tail[from] = std::max(tail[from], passLink(from, /*forward=*/false));
  }
}

/// One machine, operations may be interrupted: the one with the longest tail
/// first is the best there is.
Time Graph::runPreemptive(std::vector<Job> jobs) {
  llvm::sort(jobs, [](const Job &a, const Job &b) {
    return std::make_tuple(a.head, a.tail, a.work) <
           std::make_tuple(b.head, b.tail, b.work);
  });
  std::priority_queue<std::pair<Time, Time>> ready;
  Time now = 0, end = 0;
  size_t next = 0;
  while (next != jobs.size() || !ready.empty()) {
    if (ready.empty())
      now = std::max(now, jobs[next].head);
    for (; next != jobs.size() && jobs[next].head <= now; ++next)
      ready.push({jobs[next].tail, jobs[next].work});
    auto [tail, left] = ready.top();
    ready.pop();
    Time until = now + left;
    if (next != jobs.size())
      until = std::min(until, jobs[next].head);
    left -= until - now;
    now = until;
    if (left)
      ready.push({tail, left});
    else
      end = std::max(end, now + tail);
  }
  return end;
}

/// A queue loses a share of its speed while others run. From any time on: the
/// @slowed operations, of @queue, that cannot begin before it are still to do,
/// and so are the @others, which keep @otherQueues busy one after the other, as
/// far as they cannot be over by then. Outside of the last tail they run beside
/// the queue, or it waits.
Time Graph::getSlowed(const std::vector<Job> &slowed, Queue queue,
                      const std::vector<Job> &others,
                      QueueMask otherQueues) const {
  if (slowed.empty() || others.empty())
    return 0;
  // With more queues active all are slower still.
  int rate = 0, speed = 1;
  for (int q = 1; q != kNumQueues; ++q)
    if (otherQueues & maskOf(Queue(q))) {
      QueueMask both = maskOf(queue) | maskOf(Queue(q));
      rate = std::max(rate, p.cost->rate(queue, both));
      speed = std::max(speed, p.cost->rate(Queue(q), both));
    }
  // What loses more than it hides would wait instead.
  int loss = std::min(kFullRate - rate, speed);
  Time end = std::numeric_limits<Time>::max(), left = 0, busyLeft = 0;
  for (const Job &job : slowed) {
    end = std::min(end, job.tail);
    left += job.work;
  }
  for (const Job &job : others)
    busyLeft += job.work;
  Time most = 0, free = 0;
  auto next = others.begin();
  for (const Job &job : slowed) {
    Time now = job.head;
    // As much as possible is over by now.
    for (; next != others.end() && next->head <= now; ++next) {
      free = std::max(free, next->head) + next->work;
      busyLeft -= next->work;
    }
    Time busy = busyLeft + std::max<Time>(0, free - now);
    Time beside = std::max<Time>(0, busy - end);
    Time lost = beside / speed * loss + beside % speed * loss / speed;
    most = std::max(most, now + end + left + lost);
    left -= job.work;
  }
  return most;
}

Graph::Jobs Graph::getJobs() const {
  Jobs jobs;
  jobs.links.resize(p.numLinks);
  for (size_t i = 0; i != p.spine.size() + p.floating.size(); ++i)
    jobs.queues[0].push_back({head[i], work[i], tail[i]});
  for (auto [t, x] : llvm::enumerate(p.transfers)) {
    Id i = transfer(t);
    jobs.queues[int(x.queue)].push_back({head[i], work[i], tail[i]});
    jobs.links[x.cost.link].push_back(
        {head[i] + x.cost.latency, x.cost.work, tail[i]});
  }
  return jobs;
}

Time Graph::getContended() const {
  if (!p.cost)
    return 0;
  Jobs jobs = getJobs();
  auto &queues = jobs.queues;
  auto &links = jobs.links;
  std::vector<QueueMask> linkQueues(p.numLinks);
  for (const Transfer &x : p.transfers)
    linkQueues[x.cost.link] |= maskOf(x.queue);
  auto sortByHead = [](std::vector<Job> &jobs) {
    llvm::sort(jobs, [](const Job &a, const Job &b) {
      return std::make_tuple(a.head, a.work, a.tail) <
             std::make_tuple(b.head, b.work, b.tail);
    });
  };
  llvm::for_each(queues, sortByHead);
  llvm::for_each(links, sortByHead);
  Time most = 0;
  for (int slowed = 0; slowed != kNumQueues; ++slowed) {
    auto raise = [&](const std::vector<Job> &others, QueueMask mask) {
      most = std::max(most,
                      getSlowed(queues[slowed], Queue(slowed), others, mask));
    };
    for (int q = 1; q != kNumQueues; ++q)
      if (q != slowed)
        raise(queues[q], maskOf(Queue(q)));
    for (int l = 0; l != p.numLinks; ++l)
      if (!(linkQueues[l] & maskOf(Queue(slowed))))
        raise(links[l], linkQueues[l]);
  }
  return most;
}

Bound Graph::getBound() const {
  Bound bound;
  auto raise = [&](Time value, const char *name, int index) {
    if (value <= bound.value)
      return;
    bound.value = value;
    bound.binding = name;
    bound.bindingIndex = index;
  };
  for (size_t i = 0; i != work.size(); ++i)
    bound.critical = std::max(bound.critical, head[i] + work[i] + tail[i]);
  raise(bound.critical, "critical path", 0);

  Jobs jobs = getJobs();
  auto &queues = jobs.queues;
  auto &links = jobs.links;
  for (int q = 0; q != kNumQueues; ++q) {
    bound.queues[q] = runPreemptive(std::move(queues[q]));
    raise(bound.queues[q], "queue", q);
  }
  for (int l = 0; l != p.numLinks; ++l) {
    bound.links.push_back(runPreemptive(std::move(links[l])));
    raise(bound.links[l], "link", l);
  }
  bound.contended = getContended();
  raise(bound.contended, "contention", 0);
  return bound;
}

Bound mlir::fsdp::sched::lowerBound(const ScheduleProblem &problem) {
  return Graph(problem).getBound();
}
