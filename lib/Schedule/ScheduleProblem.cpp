//===- ScheduleProblem.cpp - What is to be ordered and placed -------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Schedule/ScheduleProblem.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Twine.h"

#include <algorithm>
#include <queue>

using namespace mlir::fsdp;
using namespace mlir::fsdp::sched;
using llvm::SmallVector;
using llvm::Twine;

/// One operation must fit 64 bits of scaled work in the simulation.
static constexpr Time kMaxTime = 700'000'000'000'000;

static bool inRange(Id id, size_t size) { return id >= 0 && size_t(id) < size; }

/// What a transfer may read directly, without compute in between.
static bool mayRead(Queue reader, Queue maker) {
  switch (reader) {
  case Queue::Reduce:
    return maker == Queue::Reduce;
  case Queue::AllReduce:
    return maker == Queue::Reduce || maker == Queue::AllReduce;
  case Queue::H2D:
    return maker == Queue::D2H;
  case Queue::AllGather:
    return maker == Queue::H2D || maker == Queue::AllGather;
  default:
    return false;
  }
}

static std::string checkTransfer(const ScheduleProblem &p, Id t) {
  const Transfer &x = p.transfers[t];
  auto fail = [&](const Twine &what) {
    return ("transfer " + Twine(t) + ": " + what).str();
  };
  Id segments = p.spine.size();
  if (x.queue == Queue::Compute || unsigned(x.queue) >= unsigned(kNumQueues))
    return fail("expected a queue of transfers, got " +
                Twine(unsigned(x.queue)));
  if (!inRange(x.cost.link, p.numLinks))
    return fail("expected a link below " + Twine(p.numLinks) + ", got " +
                Twine(x.cost.link));
  if (x.cost.latency < 0 || x.cost.work < 0 || x.cost.total() > kMaxTime)
    return fail("expected a duration from 0 to " + Twine(kMaxTime) +
                " ps, got " + Twine(x.cost.total()));
  if (x.dstBytes < 0 || x.srcBytes < 0)
    return fail("expected sizes of at least 0 bytes");
  if (x.ready < -1 || x.ready >= segments)
    return fail("expected its input from a segment below " + Twine(segments) +
                ", got " + Twine(x.ready));
  bool used = x.firstUse >= 0;
  if (used != (x.lastUse >= 0) || x.lastUse < x.firstUse ||
      x.lastUse >= segments)
    return fail("expected uses in order below " + Twine(segments) + ", got " +
                Twine(x.firstUse) + " to " + Twine(x.lastUse));
  if (used && x.firstUse <= x.ready)
    return fail("expected its first use behind segment " + Twine(x.ready) +
                ", got " + Twine(x.firstUse));
  bool gathers = isFetch(x.queue);
  if (gathers && !used)
    return fail("expected a segment that uses what it gathers or fetches");
  if (x.srcBytes && (x.srcBegin < 0 || x.srcBegin > x.ready))
    return fail("expected its input to begin at a segment up to " +
                Twine(x.ready) + ", got " + Twine(x.srcBegin));
  for (Id a : x.after) {
    if (!inRange(a, p.transfers.size()) || a == t)
      return fail("expected another transfer before it, got " + Twine(a));
    if (!mayRead(x.queue, p.transfers[a].queue))
      return fail("expected to read nothing of queue " +
                  Twine(int(p.transfers[a].queue)) + ", got transfer " +
                  Twine(a));
    if (gathers && isFetch(p.transfers[a].queue) &&
        p.transfers[a].firstUse > x.firstUse)
      return fail("expected the fetch that it reads to be used by segment " +
                  Twine(x.firstUse) + ", got transfer " + Twine(a));
  }
  return "";
}

static std::string checkFloating(const ScheduleProblem &p, Id f) {
  const FloatingOp &x = p.floating[f];
  auto fail = [&](const Twine &what) {
    return ("floating op " + Twine(f) + ": " + what).str();
  };
  if (x.work < 0 || x.work > kMaxTime)
    return fail("expected a duration from 0 to " + Twine(kMaxTime) +
                " ps, got " + Twine(x.work));
  if (x.before >= 0) {
    if (!inRange(x.before, p.transfers.size()))
      return fail("expected a transfer, got " + Twine(x.before));
    if (!x.after.empty() || !x.afterFloating.empty())
      return fail("expected a cast to read the step's arguments only");
    Queue queue = p.transfers[x.before].queue;
    if (!isFetch(queue))
      return fail("expected a cast to feed a gather or a fetch");
    return "";
  }
  if (x.heldBytes)
    return fail("expected no held bytes on a tail, got " + Twine(x.heldBytes));
  for (Id t : x.after)
    if (!inRange(t, p.transfers.size()) || p.transfers[t].firstUse >= 0)
      return fail("expected a transfer that only tails read, got " + Twine(t));
  for (Id g : x.afterFloating)
    if (!inRange(g, p.floating.size()) || g == f || p.floating[g].before >= 0)
      return fail("expected another tail before it, got " + Twine(g));
  return "";
}

/// Plays the step without time: whoever has all that it needs goes on.
static std::string checkProgress(const ScheduleProblem &p) {
  std::vector<SmallVector<Id, 2>> before = getPredecessors(p);
  std::vector<int> missing(p.spine.size());
  for (const Transfer &x : p.transfers)
    if (x.firstUse >= 0)
      ++missing[x.firstUse];
  std::array<std::vector<Id>, kNumQueues> order;
  for (int q = 1; q != kNumQueues; ++q)
    order[q] = getQueueOrder(p, Queue(q));
  std::array<size_t, kNumQueues> next = {};
  std::vector<bool> done(p.transfers.size());
  Id segment = 0;
  auto canBegin = [&](Id t) {
    return p.transfers[t].ready < segment &&
           llvm::all_of(before[t], [&](Id a) { return done[a]; });
  };
  for (bool goesOn = true; goesOn;) {
    goesOn = false;
    for (int q = 1; q != kNumQueues; ++q)
      for (; next[q] != order[q].size() && canBegin(order[q][next[q]]);
           ++next[q], goesOn = true) {
        Id t = order[q][next[q]];
        done[t] = true;
        if (p.transfers[t].firstUse >= 0)
          --missing[p.transfers[t].firstUse];
      }
    for (; size_t(segment) != p.spine.size() && !missing[segment]; ++segment)
      goesOn = true;
  }
  auto stuck = llvm::find(done, false);
  if (stuck == done.end())
    return "";
  return ("transfer " + Twine(stuck - done.begin()) +
          ": expected that it can begin, got a circle of transfers and what "
          "they need")
      .str();
}

std::string mlir::fsdp::sched::checkProblem(const ScheduleProblem &p) {
  if (p.numLinks < 1)
    return ("expected at least 1 link, got " + Twine(p.numLinks)).str();
  if (p.backwardBegin < 0 || size_t(p.backwardBegin) > p.spine.size())
    return ("expected backward to begin at a segment up to " +
            Twine(p.spine.size()) + ", got " + Twine(p.backwardBegin))
        .str();
  for (size_t s = 0; s != p.spine.size(); ++s)
    if (p.spine[s].work < 0 || p.spine[s].work > kMaxTime)
      return ("segment " + Twine(s) + ": expected a duration from 0 to " +
              Twine(kMaxTime) + " ps, got " + Twine(p.spine[s].work))
          .str();
  for (size_t t = 0; t != p.transfers.size(); ++t)
    if (std::string error = checkTransfer(p, t); !error.empty())
      return error;
  for (size_t f = 0; f != p.floating.size(); ++f)
    if (std::string error = checkFloating(p, f); !error.empty())
      return error;
  // Orders that contradict each other: a queue whose order runs against data,
  // or a circle of tails.
  size_t tails = llvm::count_if(
      p.floating, [](const FloatingOp &f) { return f.before < 0; });
  if (getTailOrder(p).size() != tails)
    return "expected tails without circles";
  std::vector<int> rank(p.transfers.size());
  for (int q = 1; q != kNumQueues; ++q)
    for (auto [i, t] : llvm::enumerate(getQueueOrder(p, Queue(q))))
      rank[t] = i;
  for (size_t t = 0; t != p.transfers.size(); ++t)
    for (Id a : p.transfers[t].after)
      if (p.transfers[a].queue == p.transfers[t].queue && rank[a] > rank[t])
        return ("transfer " + Twine(t) + ": expected transfer " + Twine(a) +
                " earlier in their queue")
            .str();
  return checkProgress(p);
}

std::vector<Id> mlir::fsdp::sched::getReadyKeys(const ScheduleProblem &p) {
  std::vector<Id> key(p.transfers.size());
  for (size_t t = 0; t != key.size(); ++t)
    key[t] = p.transfers[t].ready;
  // Chains are short (scatter, reduce): a few rounds reach the fixed point.
  for (size_t round = 0, changed = 1; changed && round <= key.size(); ++round) {
    changed = 0;
    for (size_t t = 0; t != key.size(); ++t)
      for (Id a : p.transfers[t].after)
        if (key[a] > key[t])
          key[t] = key[a], changed = 1;
  }
  return key;
}

std::vector<Id> mlir::fsdp::sched::getQueueOrder(const ScheduleProblem &p,
                                                 Queue queue) {
  std::vector<Id> order;
  for (size_t t = 0; t != p.transfers.size(); ++t)
    if (p.transfers[t].queue == queue)
      order.push_back(t);
  if (isFetch(queue)) {
    llvm::sort(order, [&](Id a, Id b) {
      return std::make_pair(p.transfers[a].firstUse, a) <
             std::make_pair(p.transfers[b].firstUse, b);
    });
  } else {
    std::vector<Id> key = getReadyKeys(p);
    llvm::sort(order, [&](Id a, Id b) {
      return std::make_pair(key[a], a) < std::make_pair(key[b], b);
    });
  }
  return order;
}

int64_t mlir::fsdp::sched::getBorderBytes(const ScheduleProblem &p,
                                          Id segment) {
  return segment > 0 && segment < Id(p.spine.size())
             ? std::min(p.spine[segment - 1].live, p.spine[segment].live)
             : 0;
}

std::vector<SmallVector<Id, 1>>
mlir::fsdp::sched::getCastsOf(const ScheduleProblem &p) {
  std::vector<SmallVector<Id, 1>> casts(p.transfers.size());
  for (auto [f, op] : llvm::enumerate(p.floating))
    if (op.before >= 0)
      casts[op.before].push_back(f);
  return casts;
}

std::vector<Id> mlir::fsdp::sched::getCastOrder(const ScheduleProblem &p,
                                                Queue queue) {
  std::vector<SmallVector<Id, 1>> castsOf = getCastsOf(p);
  std::vector<Id> order;
  for (Id t : getQueueOrder(p, queue))
    llvm::append_range(order, castsOf[t]);
  return order;
}

std::vector<Id> mlir::fsdp::sched::getTailOrder(const ScheduleProblem &p) {
  std::vector<Id> readyKey = getReadyKeys(p);
  size_t n = p.floating.size();
  std::vector<Id> key(n, -1);
  std::vector<int> open(n);
  std::vector<SmallVector<Id, 2>> readers(n);
  using Entry = std::pair<Id, Id>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> ready;
  for (size_t f = 0; f != n; ++f) {
    if (p.floating[f].before >= 0)
      continue;
    for (Id t : p.floating[f].after)
      key[f] = std::max(key[f], readyKey[t]);
    open[f] = p.floating[f].afterFloating.size();
    for (Id g : p.floating[f].afterFloating)
      readers[g].push_back(f);
    if (!open[f])
      ready.push({key[f], f});
  }
  std::vector<Id> order;
  while (!ready.empty()) {
    Id f = ready.top().second;
    ready.pop();
    order.push_back(f);
    for (Id g : readers[f]) {
      key[g] = std::max(key[g], key[f]);
      if (--open[g] == 0)
        ready.push({key[g], g});
    }
  }
  return order;
}

std::vector<Id> mlir::fsdp::sched::getTailKeys(const ScheduleProblem &p,
                                               llvm::ArrayRef<Id> order) {
  std::vector<Id> readyKey = getReadyKeys(p), keys;
  for (Id f : order) {
    Id key = keys.empty() ? -1 : keys.back();
    for (Id t : p.floating[f].after)
      key = std::max(key, readyKey[t]);
    keys.push_back(key);
  }
  return keys;
}

/// By transfer: gathers of units. What another gather reads, a secondary shard,
/// is a part of that one's.
static std::vector<bool> getWholeGathers(const ScheduleProblem &p) {
  std::vector<bool> isWhole;
  for (const Transfer &x : p.transfers)
    isWhole.push_back(x.queue == Queue::AllGather);
  for (const Transfer &x : p.transfers)
    if (x.queue == Queue::AllGather)
      for (Id a : x.after)
        isWhole[a] = false;
  return isWhole;
}

PlaceFloor mlir::fsdp::sched::getPlaceFloor(const ScheduleProblem &p) {
  PlaceFloor floor;
  size_t n = p.transfers.size();
  floor.place.resize(n);
  floor.fromLimit.resize(n);
  for (size_t t = 0; t != n; ++t)
    floor.place[t] = p.transfers[t].ready + 1;
  auto raise = [&](Id t, Id place) {
    if (place > floor.place[t]) {
      floor.place[t] = place;
      floor.fromLimit[t] = true;
    }
  };

  // Fetches run ahead by as many as gathers of backward do, and not at all in
  // forward: what comes back at once need not have gone.
  std::vector<Id> fetches = getQueueOrder(p, Queue::H2D);
  if (size_t ahead = p.limits.backwardPrefetch; p.limits.backwardPrefetch >= 0)
    for (auto [i, t] : llvm::enumerate(fetches)) {
      Id use = p.transfers[t].firstUse;
      Id place = i < ahead ? 0 : p.transfers[fetches[i - ahead]].firstUse;
      raise(t, std::min(use, std::max(place, p.backwardBegin)));
    }

  std::vector<Id> gathers = getQueueOrder(p, Queue::AllGather);
  std::vector<bool> isWhole = getWholeGathers(p);
  // Freed on the way, by when: what limit_all_gathers counts.
  std::vector<Id> byFree;
  llvm::copy_if(gathers, std::back_inserter(byFree),
                [&](Id t) { return isWhole[t]; });
  llvm::sort(byFree, [&](Id a, Id b) {
    return std::make_pair(p.transfers[a].lastUse, a) <
           std::make_pair(p.transfers[b].lastUse, b);
  });
  size_t freed = 0;
  // Of units, before this gather.
  std::vector<Id> earlier;
  for (Id t : gathers) {
    const Transfer &x = p.transfers[t];
    size_t i = earlier.size();
    bool backward = x.firstUse >= p.backwardBegin;
    int ahead = backward ? p.limits.backwardPrefetch : p.limits.forwardPrefetch;
    if (ahead == 0) {
      raise(t, x.firstUse);
    } else if (ahead > 0 && i >= size_t(ahead)) {
      const Transfer &y = p.transfers[earlier[i - ahead]];
      Id place = y.firstUse;
      // The unit before may be kept from forward: its backward counts.
      if (backward)
        place = p.limits.backwardPost && y.lastUse >= p.backwardBegin
                    ? y.lastUse + 1
                    : std::max(y.firstUse, p.backwardBegin);
      raise(t, std::min(x.firstUse, place));
    }
    while (freed != byFree.size() &&
           p.transfers[byFree[freed]].lastUse < x.firstUse)
      ++freed;
    if (p.limits.inFlight > 0 && freed >= size_t(p.limits.inFlight))
      raise(t, p.transfers[byFree[freed - p.limits.inFlight]].lastUse + 1);
    if (isWhole[t])
      earlier.push_back(t);
  }
  return floor;
}

std::vector<SmallVector<Id, 2>>
mlir::fsdp::sched::getPredecessors(const ScheduleProblem &p) {
  std::vector<SmallVector<Id, 2>> before(p.transfers.size());
  for (size_t t = 0; t != p.transfers.size(); ++t)
    before[t].assign(p.transfers[t].after.begin(), p.transfers[t].after.end());
  if (!p.limits.allReduceOnReduceQueue)
    return before;
  std::vector<Id> reductions = getQueueOrder(p, Queue::Reduce);
  std::vector<Id> allReduces = getQueueOrder(p, Queue::AllReduce);
  std::vector<Id> key = getReadyKeys(p);
  std::vector<int> rank(p.transfers.size(), -1);
  for (auto [i, t] : llvm::enumerate(reductions))
    rank[t] = i;
  // Of each reduction the first all_reduce behind it, by place in its queue.
  std::vector<size_t> firstReader(reductions.size(), allReduces.size());
  for (auto [i, t] : llvm::enumerate(allReduces))
    for (Id a : p.transfers[t].after)
      if (rank[a] >= 0)
        firstReader[rank[a]] = std::min(firstReader[rank[a]], i);
  for (auto [i, t] : llvm::enumerate(allReduces)) {
    int last = -1;
    for (Id a : p.transfers[t].after)
      last = std::max(last, rank[a]);
    if (last < 0)
      continue;
    // An all_reduce that is complete late, because it also sums what no
    // reduce_scatter gave, does not keep those waiting that come in between:
    // on one stream it would be issued behind them.
    for (size_t next = last + 1; next < reductions.size(); ++next)
      if (key[reductions[next]] >= key[t] && firstReader[next] > i) {
        before[reductions[next]].push_back(t);
        break;
      }
  }
  return before;
}

std::vector<int> mlir::fsdp::sched::getLastTail(const ScheduleProblem &p) {
  std::vector<Id> tails = getTailOrder(p);
  size_t n = p.transfers.size();
  std::vector<int> last(n, -1);
  for (auto [i, f] : llvm::enumerate(tails)) {
    SmallVector<Id, 8> work(p.floating[f].after.begin(),
                            p.floating[f].after.end());
    while (!work.empty()) {
      Id t = work.pop_back_val();
      if (last[t] >= int(i))
        continue;
      last[t] = i;
      work.append(p.transfers[t].after.begin(), p.transfers[t].after.end());
    }
  }
  for (size_t t = 0; t != n; ++t)
    if (p.transfers[t].firstUse >= 0)
      last[t] = -1;
    else if (last[t] < 0 || p.transfers[t].stays)
      last[t] = tails.size();
  return last;
}
