//===- BoundGraph.cpp - What precedes what in every schedule --------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Derives what precedes what in every schedule: by data, by the order of queues
// and by memory. Heads and tails in that graph give bounds by paths, queues,
// links and contention.
//
//===----------------------------------------------------------------------===//

#include "BoundGraph.h"

#include <algorithm>
#include <cassert>
#include <numeric>
#include <queue>

using namespace mlir::fsdp;
using namespace mlir::fsdp::sched;
using llvm::SmallVector;

/// So many places of the spine up to which contention is counted apart.
static constexpr Id kPlaces = 8;

std::vector<bool> mlir::fsdp::sched::getApart(const ScheduleProblem &p) {
  std::vector<Id> ready = getReadyKeys(p);
  auto getUse = [&](Id t) {
    Id use = p.transfers[t].firstUse;
    return use < 0 ? Id(p.spine.size()) : use;
  };
  // Of each link and queue, by when they can begin; and when the first of these
  // are all over.
  struct Line {
    Id link;
    Queue queue;
    std::vector<Id> transfers, over;
  };
  std::vector<Line> lines;
  for (Id t = 0, e = p.transfers.size(); t != e; ++t) {
    const Transfer &x = p.transfers[t];
    auto line = llvm::find_if(lines, [&](const Line &line) {
      return line.link == x.cost.link && line.queue == x.queue;
    });
    if (line == lines.end())
      line = lines.insert(lines.end(), Line{x.cost.link, x.queue, {}, {}});
    line->transfers.push_back(t);
  }
  for (Line &line : lines) {
    llvm::sort(line.transfers, [&](Id a, Id b) {
      return std::make_pair(ready[a], a) < std::make_pair(ready[b], b);
    });
    Id over = -1;
    for (Id t : line.transfers)
      line.over.push_back(over = std::max(over, getUse(t)));
  }
  std::vector<bool> apart(p.transfers.size(), true);
  for (Id t = 0, e = p.transfers.size(); t != e; ++t)
    for (const Line &line : lines) {
      const Transfer &x = p.transfers[t];
      if (line.link != x.cost.link || line.queue == x.queue)
        continue;
      // The others wait for the use of this one; these must be over before.
      size_t beside = llvm::partition_point(
                          line.transfers,
                          [&](Id other) { return ready[other] < getUse(t); }) -
                      line.transfers.begin();
      if (beside && line.over[beside - 1] > ready[t])
        apart[t] = false;
    }
  return apart;
}

BoundGraph::BoundGraph(const ScheduleProblem &problem,
                       llvm::ArrayRef<Choice> early)
    : p(problem), apart(getApart(problem)) {
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
    std::vector<Id> casts = getCastOrder(p, Queue(q));
    for (size_t i = 1; i < casts.size(); ++i)
      edge(floating(casts[i - 1]), floating(casts[i]));
  }
  addMemoryEdges();
  for (const Choice &choice : early)
    edge(transfer(choice.transfer), segment(choice.segment));
  findOrder();
  leastHead.assign(n, 0);
  findHeads();
  raiseHeads();
  findTails();
  for (Choice &choice : choices) {
    Id s = segment(choice.segment), t = transfer(choice.transfer);
    choice.late = head[s] + work[s] + work[t] + tail[t];
  }
}

/// Gathers start in the order of first use and the spine is in order: so from
/// its start on, a gather lies beside all earlier ones that are still used, and
/// beside what the segments cannot be without. Where that does not fit, it
/// starts after the segment.
void BoundGraph::addMemoryEdges() {
  if (p.budget >= kNoBudget)
    return;
  size_t n = p.spine.size();
  std::vector<int64_t> load(n + 1);
  auto addTo = [](std::vector<int64_t> &bytesBy, Id from, Id to,
                  int64_t bytes) {
    if (from > to)
      return;
    bytesBy[from] += bytes;
    bytesBy[to + 1] -= bytes;
  };
  auto add = [&](Id from, Id to, int64_t bytes) {
    addTo(load, from, to, bytes);
  };
  std::vector<Id> tailReady = getTailKeys(p, getTailOrder(p));
  std::vector<int> lastTail = getLastTail(p);
  std::vector<Id> heldUntil(p.transfers.size(), -1);
  // What each segment needs at least: with the gathers that it uses.
  std::vector<int64_t> needed(n + 1);
  for (auto [t, x] : llvm::enumerate(p.transfers)) {
    if (isFetch(x.queue)) {
      addTo(needed, x.firstUse, x.lastUse, x.dstBytes);
      continue;
    }
    if (x.srcBytes)
      add(x.srcBegin, x.ready, x.srcBytes);
    // It exists from its start on: surely once something waits for it.
    if (x.lastUse >= 0)
      add(x.firstUse, x.lastUse, x.dstBytes);
    else if (lastTail[t] >= 0)
      heldUntil[t] = size_t(lastTail[t]) < tailReady.size()
                         ? tailReady[lastTail[t]]
                         : Id(n) - 1;
  }
  std::partial_sum(load.begin(), load.end(), load.begin());
  std::partial_sum(needed.begin(), needed.end(), needed.begin());
  for (size_t s = 0; s != n; ++s) {
    load[s] += p.spine[s].live;
    needed[s] += load[s];
  }
  // Reductions last: fetches count what is being reduced (getReducedBytes).
  for (Queue sent : {Queue::D2H, Queue::Reduce}) {
    findReductions(sent, heldUntil);
    addReductionEdges(needed);
  }
  for (size_t s = 0; s != n; ++s) {
    size_t ready = readyBefore[s];
    reduced.push_back(getBorderBytes(p, s) + getReducedBytes(s, ready, ready));
  }
  for (Queue fetched : {Queue::AllGather, Queue::H2D})
    addFetchEdges(fetched, load);
}

/// Only those of one queue are in order among each other; those of the other
/// one are there at least while they are used.
void BoundGraph::addFetchEdges(Queue queue, const std::vector<int64_t> &load) {
  size_t n = p.spine.size();
  std::vector<int64_t> freed(n + 1), others(n + 1);
  for (const Transfer &x : p.transfers)
    if (x.queue == queue) {
      freed[x.lastUse + 1] += x.dstBytes;
    } else if (isFetch(x.queue)) {
      others[x.firstUse] += x.dstBytes;
      others[x.lastUse + 1] -= x.dstBytes;
    }
  std::partial_sum(freed.begin(), freed.end(), freed.begin());
  std::partial_sum(others.begin(), others.end(), others.begin());
  int64_t room = p.budget - p.fixedBytes;
  auto getNeeded = [&](Id s) {
    return load[s] + others[s] - freed[s] + held[s];
  };
  // Segments up to the first use after which none of them needs as much: the
  // last of these without room is the last of all. (Uses are in order.)
  SmallVector<Id> falling;
  Id place = 0, next = 0;
  for (Id t : getQueueOrder(p, queue)) {
    room -= p.transfers[t].dstBytes;
    for (; next < p.transfers[t].firstUse; ++next) {
      while (!falling.empty() && getNeeded(falling.back()) <= getNeeded(next))
        falling.pop_back();
      falling.push_back(next);
    }
    auto fits = llvm::partition_point(
        falling, [&](Id s) { return getNeeded(s) > room; });
    if (fits != falling.begin())
      place = std::max(place, *std::prev(fits) + 1);
    if (place)
      edge(segment(place - 1), transfer(t));
    addGatherEdges(t, place, room, freed);
  }
}

/// For getReducedBytes. What goes to the host is like a reduction that brings
/// nothing.
void BoundGraph::findReductions(Queue queue, const std::vector<Id> &heldUntil) {
  reductions = getQueueOrder(p, queue);
  // One that waits for another queue may be ready before those ahead of it.
  if (!llvm::is_sorted(reductions, [&](Id a, Id b) {
        return p.transfers[a].ready < p.transfers[b].ready;
      }))
    reductions.clear();
  size_t n = p.spine.size();
  // Else less may be alive with more of them in flight.
  bool shrink = llvm::all_of(reductions, [&](Id t) {
    return p.transfers[t].dstBytes <= p.transfers[t].srcBytes;
  });
  inputs = results = {0};
  held.assign(n + 1, 0);
  for (Id t : reductions) {
    const Transfer &x = p.transfers[t];
    inputs.push_back(inputs.back() + x.srcBytes);
    results.push_back(results.back() + (shrink ? x.dstBytes : 0));
    if (!shrink || heldUntil[t] <= x.ready)
      continue;
    held[x.ready + 1] += x.dstBytes;
    if (size_t(heldUntil[t]) < n)
      held[heldUntil[t] + 1] -= x.dstBytes;
  }
  for (size_t s = 1; s <= n; ++s)
    held[s] += held[s - 1];
  readyBefore.clear();
  size_t ready = 0;
  for (size_t s = 0; s != n; ++s) {
    while (ready != reductions.size() &&
           p.transfers[reductions[ready]].ready < Id(s))
      ++ready;
    readyBefore.push_back(ready);
  }
}

/// Where the first @over of the @ready reductions are over: bytes of the inputs
/// of the others, and of results that no tail can have read for the last time.
/// Falls with @over.
int64_t BoundGraph::getReducedBytes(Id s, size_t over, size_t ready) const {
  return inputs[ready] - inputs[over] +
         std::max<int64_t>(0, held[s] - (results[ready] - results[over]));
}

/// A gather that begins after @place segments lies beside reductions' inputs:
/// where those do not fit, whatever compute has done by then, it begins after
/// some of the reductions. @room: what the gather and all before it leave, but
/// for those that are @freed by a segment.
void BoundGraph::addGatherEdges(Id gather, Id place, int64_t room,
                                const std::vector<int64_t> &freed) {
  size_t least = reductions.size() + 1;
  for (Id s = p.transfers[gather].firstUse; s >= place && least; --s) {
    int64_t left = room + freed[s];
    // Else the gather cannot begin here.
    if (reduced[s] > left)
      continue;
    // Parts of what was fetched that nothing reads any more make room, too.
    left -= std::min<int64_t>(getBorderBytes(p, s), 0);
    size_t ready = readyBefore[s];
    while (least > ready ||
           (least && getReducedBytes(s, least - 1, ready) <= left))
      --least;
  }
  if (least && least <= reductions.size())
    edge(transfer(reductions[least - 1]), transfer(gather));
}

/// Inputs of reductions that are not over lie beside what a segment needs.
/// Reductions are over in order: so where the inputs from some reduction on do
/// not fit, that one is over before the segment begins. Where they fit without
/// its result alone, it is over or has not begun.
void BoundGraph::addReductionEdges(const std::vector<int64_t> &needed) {
  int64_t largest = 0;
  for (Id t : reductions)
    largest = std::max(largest, p.transfers[t].dstBytes);
  size_t over = 0;
  for (Id s = 0, e = p.spine.size(); s != e; ++s) {
    size_t ready = readyBefore[s], before = over;
    int64_t left = p.budget - p.fixedBytes - needed[s];
    while (over < ready && getReducedBytes(s, over, ready) > left)
      ++over;
    if (over != before)
      edge(transfer(reductions[over - 1]), segment(s));
    for (size_t i = over; i < ready; ++i) {
      int64_t bytes = getReducedBytes(s, i, ready);
      if (bytes + largest <= left)
        break;
      if (bytes + p.transfers[reductions[i]].dstBytes > left)
        choices.push_back({reductions[i], s});
    }
  }
}

/// The transfers right before @node (after it, if not @forward) that share a
/// link run one after the other: when the last of them can be over.
Time BoundGraph::passLink(Id node, bool forward) const {
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

void BoundGraph::findOrder() {
  size_t n = work.size();
  std::vector<int> open(n);
  for (auto &list : successors)
    for (Id to : list)
      ++open[to];
  for (size_t i = 0; i != n; ++i)
    if (!open[i])
      order.push_back(i);
  for (size_t i = 0; i != order.size(); ++i)
    for (Id to : successors[order[i]])
      if (--open[to] == 0)
        order.push_back(to);
  assert(order.size() == n && "expected a step without circles");
}

void BoundGraph::findHeads() {
  head = leastHead;
  for (Id from : order) {
    head[from] = std::max(head[from], passLink(from, /*forward=*/true));
    for (Id to : successors[from])
      head[to] = std::max(head[to], head[from] + work[from]);
  }
}

void BoundGraph::findTails() {
  tail.assign(work.size(), 0);
  for (Id from : llvm::reverse(order)) {
    for (Id to : successors[from])
      tail[from] = std::max(tail[from], work[to] + tail[to]);
    tail[from] = std::max(tail[from], passLink(from, /*forward=*/false));
  }
}

/// One machine, operations may be interrupted: the one with the longest tail
/// first is the best there is.
Time BoundGraph::runPreemptive(std::vector<Job> jobs) {
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

/// When a segment can begin at last: after all segments before it, which what
/// is fetched for them and for it has slowed down.
Time BoundGraph::getContendedHead(Id segment) const {
  std::vector<Job> slowed;
  for (Id s = 0; s != segment; ++s)
    slowed.push_back({head[s], work[s], 0});
  std::vector<LinkJobs> links(p.numLinks);
  for (auto [t, x] : llvm::enumerate(p.transfers))
    if (isFetch(x.queue) && x.firstUse <= segment)
      addJobs(t, /*tail=*/0, links[x.cost.link]);
  llvm::for_each(links, [](LinkJobs &jobs) { jobs.sortByHead(); });
  return getSlowed(*p.cost, slowed, Queue::Compute, getBusyLinks(links),
                   /*ends=*/Time(0));
}

/// So that what is slowed down in forward is not taken for something that
/// backward's transfers could have hidden, and so on.
void BoundGraph::raiseHeads() {
  if (!p.cost || p.spine.empty())
    return;
  Id segments = p.spine.size();
  std::vector<Id> places = {std::min(p.backwardBegin, segments - 1)};
  for (Id i = 1; i < kPlaces; ++i)
    places.push_back(int64_t(segments) * i / kPlaces);
  llvm::sort(places);
  for (Id s : places) {
    Time least = getContendedHead(s);
    if (least <= head[s])
      continue;
    leastHead[s] = least;
    findHeads();
  }
}

/// To those of its link.
void BoundGraph::addJobs(Id t, Time tail, LinkJobs &jobs) const {
  const Transfer &x = p.transfers[t];
  Job whole = {head[transfer(t)], x.cost.total(), tail};
  jobs.queues[int(x.queue)].push_back(whole);
  // A latency does not need the link; but with nothing else there it is as if
  // it did.
  if (!apart[t]) {
    whole.head += x.cost.latency;
    whole.work = x.cost.work;
  }
  jobs.work.push_back(whole);
}

BoundGraph::Jobs BoundGraph::getJobs() const {
  Jobs jobs;
  jobs.links.resize(p.numLinks);
  for (size_t i = 0; i != p.spine.size() + p.floating.size(); ++i)
    jobs.queues[0].push_back({head[i], work[i], tail[i]});
  for (auto [t, x] : llvm::enumerate(p.transfers)) {
    Id i = transfer(t);
    jobs.queues[int(x.queue)].push_back({head[i], work[i], tail[i]});
    addJobs(t, tail[i], jobs.links[x.cost.link]);
  }
  return jobs;
}

/// A bound that is @least already, raised by what slows what down.
Time BoundGraph::getContended(Time least) const {
  if (!p.cost)
    return least;
  Jobs jobs = getJobs();
  auto &queues = jobs.queues;
  auto &links = jobs.links;
  llvm::for_each(queues, sortByHead);
  llvm::for_each(links, [](LinkJobs &jobs) { jobs.sortByHead(); });
  Time most = least;
  for (int slowed = 0; slowed != kNumQueues; ++slowed) {
    SmallVector<Time> tails = getTails(queues[slowed]);
    auto raise = [&](llvm::ArrayRef<Beside> others) {
      most = getSlowed(*p.cost, queues[slowed], Queue(slowed), others, tails,
                       most);
    };
    for (int q = 1; q != kNumQueues; ++q)
      if (q != slowed && !queues[q].empty())
        raise(Beside{{&queues[q]}, maskOf(Queue(q))});
    raise(getBusyLinks(links, maskOf(Queue(slowed))));
  }
  return most;
}

Bound BoundGraph::getBound() const {
  Bound bound;
  auto raise = [&](Time value, Bound::Kind kind, int index) {
    if (value <= bound.value)
      return;
    bound.value = value;
    bound.binding = kind;
    bound.bindingIndex = index;
  };
  for (size_t i = 0; i != work.size(); ++i)
    bound.critical = std::max(bound.critical, head[i] + work[i] + tail[i]);
  raise(bound.critical, Bound::CriticalPath, 0);

  Jobs jobs = getJobs();
  auto &queues = jobs.queues;
  auto &links = jobs.links;
  for (int q = 0; q != kNumQueues; ++q) {
    bound.queues[q] = runPreemptive(std::move(queues[q]));
    raise(bound.queues[q], Bound::Queue, q);
  }
  for (int l = 0; l != p.numLinks; ++l) {
    bound.links.push_back(runPreemptive(std::move(links[l].work)));
    raise(bound.links[l], Bound::Link, l);
  }
  bound.contended = getContended(bound.value);
  raise(bound.contended, Bound::Contention, 0);
  return bound;
}

LeastTails BoundGraph::getLeastTails() const {
  auto transfers = tail.begin() + transfer(0);
  return {{tail.begin(), tail.begin() + p.spine.size()},
          {transfers, tail.end()}};
}
