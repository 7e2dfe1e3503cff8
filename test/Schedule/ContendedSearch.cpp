//===- ContendedSearch.cpp - The best step under contention ---------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ContendedSearch.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <string>
#include <unordered_map>

using namespace mlir::fsdp;
using namespace mlir::fsdp::sched;
using namespace mlir::fsdp::sched::test;
using llvm::ArrayRef;
using llvm::SmallVector;

namespace {
template <typename T>
using PerQueue = std::array<T, kNumQueues>;

/// What has begun and what is over, and how much is left of what runs.
struct State {
  Time now = 0;
  int segments = 0, tails = 0, casts = 0;
  enum : int8_t { Nothing, Segment, Tail, Cast } running = Nothing;
  /// By queue: transfers begun; parts of kFullRate times picoseconds.
  PerQueue<int> begun = {};
  PerQueue<bool> active = {};
  PerQueue<int64_t> latencyLeft = {}, workLeft = {};
  /// Queues from here on may begin something now; those before have chosen.
  int choosing = 0;
  /// How it came here.
  std::vector<LineOp> line;
  std::vector<Id> issue, place, known;
  std::vector<SmallVector<Id, 2>> after;

  int over(int q) const { return begun[q] - active[q]; }
};

class Contended {
public:
  Contended(const ScheduleProblem &p, const ContendedOptions &options);
  ContendedResult run();

private:
  double getLost(ArrayRef<QueueMask> links) const;
  void findPrices();
  void findTails();
  void visit(const State &x);
  bool beginTransfer(State &x, int q) const;
  bool beginSegment(State &x) const;
  bool beginTail(State &x) const;
  bool beginCast(State &x) const;
  void learnOver(State &x) const;
  bool advance(State &x) const;
  bool fits(const State &x) const;
  bool isOver(const State &x, Id t) const;
  bool isWhole(const State &x) const;
  Time getBound(const State &x) const;
  Time getLoss(ArrayRef<Time> work) const;
  Time getSlowedBound(const State &x, Time compute) const;
  bool isBeaten(const State &x);
  int rate(int q, QueueMask mask) const {
    return p.cost ? p.cost->rate(Queue(q), mask) : kFullRate;
  }

  const ScheduleProblem &p;
  ContendedOptions options;
  PerQueue<std::vector<Id>> order;
  /// By transfer: its place in its queue.
  std::vector<int> rank;
  std::vector<Id> tailOrder, castOrder, floor;
  std::vector<int> lastTail;
  std::vector<SmallVector<Id, 2>> before;
  /// Least time behind each segment, transfer and tail, and from each segment
  /// on.
  std::vector<Time> behindSegment, behindTransfer, behindTail;
  std::vector<Time> spineFrom;
  /// Prices of a picosecond of each link's work: no set of links that works
  /// beside compute pays more than compute loses to it.
  std::vector<std::vector<double>> prices;
  ContendedResult result;
  Time best;
  /// When each state was there; and where being ahead is enough, what is left
  /// of everything, too.
  std::unordered_map<std::string, Time> earliest;
  std::unordered_map<std::string, std::vector<std::vector<Time>>> seen;
};
} // namespace

Contended::Contended(const ScheduleProblem &p, const ContendedOptions &options)
    : p(p), options(options), rank(p.transfers.size()),
      tailOrder(getTailOrder(p)), floor(getPlaceFloor(p).place),
      lastTail(getLastTail(p)), before(getPredecessors(p)),
      best(options.below) {
  for (int q = 1; q != kNumQueues; ++q) {
    order[q] = getQueueOrder(p, Queue(q));
    for (auto [i, t] : llvm::enumerate(order[q]))
      rank[t] = i;
  }
  for (Queue queue : {Queue::AllGather, Queue::H2D})
    llvm::append_range(castOrder, getCastOrder(p, queue));
  findPrices();
  findTails();
}

/// The least that compute loses beside one of the queues of each of @links.
double Contended::getLost(ArrayRef<QueueMask> links) const {
  SmallVector<QueueMask> masks = {maskOf(Queue::Compute)};
  for (QueueMask queues : links) {
    SmallVector<QueueMask> more;
    for (QueueMask mask : masks)
      for (int q = 1; q != kNumQueues; ++q)
        if (queues & maskOf(Queue(q)))
          more.push_back(mask | maskOf(Queue(q)));
    masks = std::move(more);
  }
  int most = 0;
  for (QueueMask mask : masks)
    most = std::max(most, rate(0, mask));
  return kFullRate - most;
}

/// In each order of the links, each has what those before it leave. Together
/// at most 1: compute may wait instead.
void Contended::findPrices() {
  std::vector<QueueMask> queues(p.numLinks);
  std::vector<double> speed(p.numLinks, 1);
  for (const Transfer &t : p.transfers) {
    QueueMask queue = maskOf(t.queue);
    double most = rate(int(t.queue), queue | maskOf(Queue::Compute));
    queues[t.cost.link] |= queue;
    speed[t.cost.link] = std::max(speed[t.cost.link], most);
  }
  std::vector<Id> links;
  for (Id link = 0; link != p.numLinks; ++link)
    if (queues[link])
      links.push_back(link);
  do {
    std::vector<double> price(p.numLinks);
    for (size_t i = 0; i != links.size(); ++i) {
      double most = 1;
      for (size_t set = 0; set != size_t(1) << i; ++set) {
        SmallVector<QueueMask> beside = {queues[links[i]]};
        double paid = 0, waiting = 0;
        for (size_t j = 0; j != i; ++j)
          if (set >> j & 1) {
            beside.push_back(queues[links[j]]);
            paid += price[links[j]] * speed[links[j]];
            waiting += price[links[j]];
          }
        most = std::min(
            {most, (getLost(beside) - paid) / speed[links[i]], 1 - waiting});
      }
      price[links[i]] = std::max(most, 0.0);
    }
    prices.push_back(std::move(price));
  } while (std::next_permutation(links.begin(), links.end()));
  llvm::sort(prices);
  prices.erase(llvm::unique(prices), prices.end());
}

void Contended::findTails() {
  size_t segments = p.spine.size(), tails = tailOrder.size();
  behindTail.assign(tails + 1, 0);
  for (size_t i = tails; i-- > 0;)
    behindTail[i] = behindTail[i + 1] + p.floating[tailOrder[i]].work;
  spineFrom.assign(segments + 1, 0);
  for (size_t s = segments; s-- > 0;)
    spineFrom[s] = spineFrom[s + 1] + p.spine[s].work;
  behindSegment.assign(segments, 0);
  behindTransfer.assign(p.transfers.size(), 0);
  auto raise = [](Time &time, Time least) { time = std::max(time, least); };
  for (size_t round = 0; round <= 2 * p.transfers.size(); ++round) {
    for (size_t s = segments; s-- > 0;)
      raise(behindSegment[s], spineFrom[s + 1]);
    for (auto [t, x] : llvm::enumerate(p.transfers)) {
      Time &behind = behindTransfer[t];
      if (x.firstUse >= 0)
        raise(behind, p.spine[x.firstUse].work + behindSegment[x.firstUse]);
      for (size_t i = 0; i != tails; ++i)
        if (llvm::is_contained(p.floating[tailOrder[i]].after, Id(t)))
          raise(behind, behindTail[i]);
      for (auto [u, y] : llvm::enumerate(p.transfers))
        if (llvm::is_contained(before[u], Id(t)) ||
            (x.queue == y.queue && rank[u] == rank[t] + 1))
          raise(behind, y.cost.total() + behindTransfer[u]);
      for (Id s = 0; s != floor[t]; ++s)
        raise(behindSegment[s],
              spineFrom[s + 1] - spineFrom[floor[t]] + x.cost.total() + behind);
    }
  }
}

//===----------------------------------------------------------------------===//
// What may begin
//===----------------------------------------------------------------------===//

bool Contended::isOver(const State &x, Id t) const {
  int q = int(p.transfers[t].queue);
  return rank[t] < x.over(q);
}

/// At this moment, all that has begun included.
bool Contended::fits(const State &x) const {
  int64_t bytes = p.fixedBytes;
  bool inSegment = x.running == State::Segment;
  bytes += inSegment ? p.spine[x.segments].live : getBorderBytes(p, x.segments);
  int tailsOver = x.tails - (x.running == State::Tail);
  for (auto [t, transfer] : llvm::enumerate(p.transfers)) {
    bool isAlive = transfer.lastUse >= 0 ? transfer.lastUse >= x.segments
                                         : lastTail[t] >= tailsOver;
    if (rank[t] < x.begun[int(transfer.queue)] && isAlive)
      bytes += transfer.dstBytes;
    if (transfer.srcBytes && transfer.srcBegin < x.segments + inSegment &&
        !isOver(x, t))
      bytes += transfer.srcBytes;
  }
  for (int i = 0; i != x.casts; ++i) {
    const FloatingOp &op = p.floating[castOrder[i]];
    bytes += isOver(x, op.before) ? 0 : op.heldBytes;
  }
  return bytes <= p.budget;
}

bool Contended::beginTransfer(State &x, int q) const {
  if (x.active[q] || x.begun[q] == int(order[q].size()))
    return false;
  Id t = order[q][x.begun[q]];
  if (floor[t] > x.segments)
    return false;
  int castsOver = x.casts - (x.running == State::Cast);
  for (size_t i = castsOver; i < castOrder.size(); ++i)
    if (p.floating[castOrder[i]].before == t)
      return false;
  for (Id a : before[t])
    if (!isOver(x, a))
      return false;
  ++x.begun[q];
  x.active[q] = true;
  x.latencyLeft[q] = p.transfers[t].cost.latency * kFullRate;
  x.workLeft[q] = p.transfers[t].cost.work * kFullRate;
  x.place[t] = x.line.size() - (x.running != State::Nothing);
  x.issue.push_back(t);
  for (int other = 1; other != kNumQueues; ++other)
    if (other != q && x.over(other))
      x.after[t].push_back(order[other][x.over(other) - 1]);
  return fits(x);
}

/// Compute waits for all that is over: that takes no time.
void Contended::learnOver(State &x) const {
  for (size_t t = 0; t != p.transfers.size(); ++t)
    if (isOver(x, t))
      x.known[t] = std::min<Id>(x.known[t], x.line.size());
}

bool Contended::beginSegment(State &x) const {
  if (x.segments == int(p.spine.size()))
    return false;
  for (auto [t, transfer] : llvm::enumerate(p.transfers))
    if (transfer.firstUse == x.segments && !isOver(x, t))
      return false;
  learnOver(x);
  x.running = State::Segment;
  x.workLeft[0] = p.spine[x.segments].work * kFullRate;
  x.line.push_back({false, x.segments});
  return fits(x);
}

bool Contended::beginTail(State &x) const {
  if (x.tails == int(tailOrder.size()))
    return false;
  const FloatingOp &op = p.floating[tailOrder[x.tails]];
  if (!llvm::all_of(op.after, [&](Id t) { return isOver(x, t); }))
    return false;
  learnOver(x);
  x.running = State::Tail;
  x.workLeft[0] = op.work * kFullRate;
  x.line.push_back({true, tailOrder[x.tails++]});
  return true;
}

bool Contended::beginCast(State &x) const {
  if (x.casts == int(castOrder.size()))
    return false;
  learnOver(x);
  x.running = State::Cast;
  x.workLeft[0] = p.floating[castOrder[x.casts]].work * kFullRate;
  x.line.push_back({true, castOrder[x.casts++]});
  return fits(x);
}

//===----------------------------------------------------------------------===//
// Time
//===----------------------------------------------------------------------===//

/// To the next moment at which something is over; with what the simulation
/// says of rates and shares.
bool Contended::advance(State &x) const {
  bool computes = x.running != State::Nothing;
  QueueMask mask = computes ? maskOf(Queue::Compute) : 0;
  std::vector<int> sharers(p.numLinks);
  auto linkOf = [&](int q) {
    return p.transfers[order[q][x.begun[q] - 1]].cost.link;
  };
  for (int q = 1; q != kNumQueues; ++q)
    if (x.active[q]) {
      mask |= maskOf(Queue(q));
      sharers[linkOf(q)] += x.latencyLeft[q] == 0;
    }
  if (!mask)
    return false;
  bool isOver = false;
  while (!isOver) {
    PerQueue<int> speed = {};
    Time step = std::numeric_limits<Time>::max();
    auto limit = [&](int q, int64_t left) {
      step = std::min<Time>(step, (left + speed[q] - 1) / speed[q]);
    };
    for (int q = 1; q != kNumQueues; ++q)
      if (x.active[q]) {
        speed[q] = rate(q, mask);
        if (x.latencyLeft[q] == 0)
          speed[q] = std::max(1, speed[q] / sharers[linkOf(q)]);
        limit(q, x.latencyLeft[q] ? x.latencyLeft[q] : x.workLeft[q]);
      }
    if (computes) {
      speed[0] = rate(0, mask);
      limit(0, x.workLeft[0]);
    }
    x.now += step;
    for (int q = 0; q != kNumQueues; ++q) {
      if (q ? !x.active[q] : !computes)
        continue;
      bool isLatency = q && x.latencyLeft[q];
      int64_t &left = isLatency ? x.latencyLeft[q] : x.workLeft[q];
      left = std::max<int64_t>(0, left - step * speed[q]);
      if (isLatency && left == 0)
        ++sharers[linkOf(q)];
    }
    for (int q = 1; q != kNumQueues; ++q)
      if (x.active[q] && !x.latencyLeft[q] && !x.workLeft[q]) {
        x.active[q] = false;
        isOver = true;
      }
    if (computes && !x.workLeft[0]) {
      x.segments += x.running == State::Segment;
      x.running = State::Nothing;
      isOver = true;
    }
  }
  x.choosing = 0;
  return true;
}

//===----------------------------------------------------------------------===//
// The search
//===----------------------------------------------------------------------===//

bool Contended::isWhole(const State &x) const {
  if (x.segments != int(p.spine.size()) || x.tails != int(tailOrder.size()) ||
      x.casts != int(castOrder.size()) || x.running != State::Nothing)
    return false;
  for (int q = 1; q != kNumQueues; ++q)
    if (x.active[q] || x.begun[q] != int(order[q].size()))
      return false;
  return true;
}

/// What @work on the links takes from compute at least: its price where it runs
/// beside compute, and all of it where compute waits.
Time Contended::getLoss(ArrayRef<Time> work) const {
  double most = 0;
  for (const std::vector<double> &price : prices) {
    double sum = 0;
    for (auto [each, time] : llvm::zip_equal(price, work))
      sum += each * double(time);
    most = std::max(most, sum);
  }
  return Time(most * (1 - 1e-9)) - 1;
}

/// All compute that is left, and what the work that is left takes from it, but
/// for what fits behind the spine beside what must be there.
Time Contended::getSlowedBound(const State &x, Time compute) const {
  Id last = Id(p.spine.size()) - 1;
  SmallVector<Time> before(p.numLinks), behind(p.numLinks);
  for (int q = 1; q != kNumQueues; ++q)
    for (int i = x.over(q), e = order[q].size(); i != e; ++i) {
      const Transfer &t = p.transfers[order[q][i]];
      Time work = i < x.begun[q] ? x.workLeft[q] / kFullRate : t.cost.work;
      (floor[order[q][i]] > last ? behind : before)[t.cost.link] += work;
    }
  SmallVector<Time> all;
  for (auto [one, other] : llvm::zip_equal(before, behind))
    all.push_back(one + other);
  Time least = x.now + compute + getLoss(all);
  if (x.segments > last)
    return least;
  Time spine = spineFrom[x.segments];
  if (x.running == State::Segment)
    spine += x.workLeft[0] / kFullRate - p.spine[x.segments].work;
  for (auto [one, other] : llvm::zip_equal(before, behind)) {
    Time slack = std::max<Time>(0, behindSegment[last] - other);
    one = std::max<Time>(0, one - slack);
  }
  return std::max(least, x.now + spine + getLoss(before) + behindSegment[last]);
}

Time Contended::getBound(const State &x) const {
  Time running = x.running == State::Nothing ? 0 : x.workLeft[0] / kFullRate;
  int next = x.segments + (x.running == State::Segment);
  Time compute = running + spineFrom[next] + behindTail[x.tails];
  for (size_t i = x.casts; i != castOrder.size(); ++i)
    compute += p.floating[castOrder[i]].work;
  Time bound = getSlowedBound(x, compute);
  auto raise = [&](Time least) { bound = std::max(bound, x.now + least); };
  if (x.running == State::Segment)
    raise(running + behindSegment[x.segments]);
  if (next < int(p.spine.size()))
    raise(running + p.spine[next].work + behindSegment[next]);
  for (int q = 1; q != kNumQueues; ++q) {
    Time busy = 0;
    if (x.active[q]) {
      busy = (x.latencyLeft[q] + x.workLeft[q]) / kFullRate;
      raise(busy + behindTransfer[order[q][x.begun[q] - 1]]);
    }
    if (x.begun[q] == int(order[q].size()))
      continue;
    Id t = order[q][x.begun[q]];
    if (floor[t] > x.segments)
      busy = std::max(busy, running + spineFrom[next] -
                                spineFrom[std::max<int>(next, floor[t])]);
    raise(busy + p.transfers[t].cost.total() + behindTransfer[t]);
  }
  return bound;
}

bool Contended::isBeaten(const State &x) {
  std::string key;
  auto add = [&](int v) { key.push_back(char(v)); };
  add(x.segments), add(x.tails), add(x.casts), add(x.running), add(x.choosing);
  std::vector<Time> times = {x.now, x.running ? x.workLeft[0] : 0};
  for (int q = 1; q != kNumQueues; ++q) {
    add(x.begun[q]), add(x.active[q]);
    if (!x.active[q])
      continue;
    times.push_back(x.latencyLeft[q]);
    times.push_back(x.workLeft[q]);
  }
  if (!options.greedy) {
    for (Time time : llvm::drop_begin(times))
      key.append(reinterpret_cast<const char *>(&time), sizeof(time));
    auto [known, isNew] = earliest.try_emplace(std::move(key), x.now);
    if (!isNew && known->second <= x.now)
      return true;
    known->second = x.now;
    return false;
  }
  std::vector<std::vector<Time>> &others = seen[key];
  auto beats = [&](const std::vector<Time> &a, const std::vector<Time> &b) {
    return llvm::all_of(llvm::zip_equal(a, b), [](auto times) {
      return std::get<0>(times) <= std::get<1>(times);
    });
  };
  for (const std::vector<Time> &other : others)
    if (beats(other, times))
      return true;
  llvm::erase_if(others,
                 [&](const auto &other) { return beats(times, other); });
  others.push_back(std::move(times));
  return false;
}

void Contended::visit(const State &x) {
  if (result.states >= options.maxStates) {
    result.complete = false;
    return;
  }
  if (getBound(x) >= best || isBeaten(x))
    return;
  ++result.states;
  if (isWhole(x)) {
    best = x.now;
    result.makespan = best;
    result.schedule = {};
    result.schedule.line = x.line;
    result.schedule.issue = x.issue;
    result.schedule.place = x.place;
    result.schedule.known = x.known;
    result.schedule.after = x.after;
    result.schedule.placeCause.assign(p.transfers.size(), Cause::None);
    result.schedule.makespan = best;
    return;
  }
  // One queue after the other chooses; the promising choices first.
  std::vector<std::pair<Time, State>> next;
  auto consider = [&](State y, bool ok) {
    if (ok)
      next.push_back({getBound(y), std::move(y)});
  };
  if (x.choosing == kNumQueues) {
    State y = x;
    bool ok = advance(y);
    consider(std::move(y), ok);
  } else {
    State chosen = x;
    ++chosen.choosing;
    if (x.choosing) {
      State y = chosen;
      bool ok = beginTransfer(y, x.choosing);
      consider(std::move(y), ok);
    } else if (x.running == State::Nothing) {
      for (auto begin : {&Contended::beginSegment, &Contended::beginTail,
                         &Contended::beginCast}) {
        State y = chosen;
        bool ok = (this->*begin)(y);
        consider(std::move(y), ok);
      }
    }
    consider(std::move(chosen), true);
  }
  llvm::sort(next,
             [](const auto &a, const auto &b) { return a.first < b.first; });
  for (const auto &entry : next)
    visit(entry.second);
}

ContendedResult Contended::run() {
  State start;
  size_t n = p.transfers.size();
  start.place.resize(n);
  start.known.assign(n, p.spine.size() + p.floating.size());
  start.after.resize(n);
  visit(start);
  return std::move(result);
}

ContendedResult
mlir::fsdp::sched::test::searchContended(const ScheduleProblem &problem,
                                         const ContendedOptions &options) {
  return Contended(problem, options).run();
}
