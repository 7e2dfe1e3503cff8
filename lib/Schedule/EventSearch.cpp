//===- EventSearch.cpp - What can happen in a step ------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "EventSearch.h"
#include "EventState.h"
#include "EventTiming.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <queue>

using namespace mlir::fsdp;
using namespace mlir::fsdp::sched;
using namespace mlir::fsdp::sched::events;
using llvm::SmallVector;

namespace {
// A label beats another one of its state if what follows from that can follow
// from it, no later. What tells most of them apart lies close together, and so
// does the rest: most of a search is to compare them.
struct Brief {
  Time now = 0, bound = 0;
  int32_t tails = 0, label = 0;
  bool mayBeat(const Brief &o) const {
    return now <= o.now && bound <= o.bound && tails >= o.tails;
  }
};
struct Detail {
  Time computeEnd = 0;
  /// With what the tails have freed that have run: the other may free it yet.
  int64_t bytes = 0;
  /// When what is under way is over, and when it begins to work on its link, if
  /// it does not yet: others have that to themselves until then.
  PerStream<Time> end = {}, workFrom = {};
  PerStream<int32_t> casts = {};
  /// Given that the one may beat the other.
  bool beats(const Detail &o) const {
    if (computeEnd > o.computeEnd || bytes > o.bytes)
      return false;
    for (int s = 0; s != kStreams; ++s)
      if (casts[s] < o.casts[s] || end[s] > o.end[s] ||
          workFrom[s] < o.workFrom[s])
        return false;
    return true;
  }
};
/// Labels of one state, none of which beats another.
struct Rivals {
  SmallVector<Brief, 1> briefs;
  SmallVector<Detail, 0> details;
};

class Search : EventStep {
public:
  Search(const ScheduleProblem &p, const LeastTails &behind,
         const EventSearchOptions &options);
  EventSearchResult run();

private:
  void buildPrices();
  bool isSimulated() const { return options.links == Links::Simulated; }
  Time getBound(const Label &x) const;
  Time getSlowedBound(const Label &x, Time compute, Time rest) const;
  Time getEarliest(const Label &x, int s, Time compute, int32_t next) const;

  void expand(const Label &x);
  void beginSegment(Label x);
  void beginTail(Label x);
  void beginCast(Label x, int s);
  void beginTransfer(Label x, int s);
  void shareLink(Label x, int s, llvm::ArrayRef<int> before,
                 llvm::ArrayRef<int> behind);
  void endNext(Label x);
  Detail getDetail(const Label &x) const;
  void dropBeaten(const Brief &brief, const Detail &detail, Rivals &rivals);
  void add(Label x);
  Schedule trace(int32_t at) const;
  void learnInputs(int32_t segment, Schedule &schedule) const;
  LineOp getLineOp(const Label &from, const Label &to) const;
  void comeAfter(const Label &from, int s, Schedule &schedule) const;

  const LeastTails &behind;
  int64_t room;
  EventSearchOptions options;
  /// By stream: what a picosecond of its work takes from compute beside it, or
  /// all of it where compute waits.
  PerStream<double> price = {};

  std::vector<Label> labels;
  /// By label: another one beats it.
  std::vector<bool> beaten;
  /// Of labels of one state.
  int64_t comparisons = 0;
  llvm::DenseMap<Key, Rivals, KeyInfo> rivalsOf;
  /// The least score first; of equal ones those that have come the furthest.
  struct Later {
    const std::vector<Label> &labels;
    bool operator()(int32_t a, int32_t b) const {
      return std::make_tuple(labels[a].score, -labels[a].depth, a) >
             std::make_tuple(labels[b].score, -labels[b].depth, b);
    }
  };
  std::priority_queue<int32_t, std::vector<int32_t>, Later> open{{labels}};
};
} // namespace

//===----------------------------------------------------------------------===//
// The step
//===----------------------------------------------------------------------===//

Search::Search(const ScheduleProblem &p, const LeastTails &behind,
               const EventSearchOptions &options)
    : EventStep(p, behind), behind(behind), room(p.budget - p.fixedBytes),
      options(options) {
  buildPrices();
}

void Search::buildPrices() {
  if (!isSimulated() || !p.cost)
    return;
  for (int s = 0; s != kStreams; ++s) {
    QueueMask both = maskOf(Queue::Compute) | maskOf(Queue(s + 1));
    double lost = kFullRate - p.cost->rate(Queue::Compute, both);
    price[s] = std::min(1.0, lost / p.cost->rate(Queue(s + 1), both));
  }
}

//===----------------------------------------------------------------------===//
// What is still to come
//===----------------------------------------------------------------------===//

/// When the next transfer of a stream can begin. @compute: compute is free;
/// @next: the segment that it runs then.
Time Search::getEarliest(const Label &x, int s, Time compute,
                         int32_t next) const {
  const Item &item = streams[s][x.key.begun[s]];
  Time from = std::max(x.now, x.end[s]);
  if (item.floor > x.key.segments)
    from = std::max(from, compute + spineAfter[next] -
                              spineAfter[std::max(next, item.floor)]);
  if (x.casts[s] < item.casts)
    from = std::max(from, compute + castsAfter[s][x.casts[s]] -
                              castsAfter[s][item.casts]);
  return from;
}

/// When compute is over with @rest from @compute on, and with what the work of
/// any link takes from it.
Time Search::getSlowedBound(const Label &x, Time compute, Time rest) const {
  SmallVector<double, 4> taken(p.numLinks, 0);
  for (int s = 0; s != kStreams; ++s) {
    for (auto [l, work] : llvm::enumerate(linkWork[s][x.key.begun[s]]))
      taken[l] += price[s] * double(work);
    if (x.key.isUnderWay(s))
      taken[getLast(x.key, s).link] +=
          price[s] * double(x.left.work[s] / kFullRate);
  }
  return compute + rest + Time(*llvm::max_element(taken));
}

Time Search::getBound(const Label &x) const {
  const Key &k = x.key;
  Time compute = k.running ? x.computeEnd : x.now;
  size_t next = k.segments + (k.running == Key::Segment);
  Time rest = spineAfter[next] + tailsAfter[x.tails];
  for (int s = 0; s != kStreams; ++s)
    rest += castsAfter[s][x.casts[s]];
  Time bound = std::max(x.bound, getSlowedBound(x, compute, rest));
  if (k.running == Key::Segment)
    bound = std::max(bound, compute + behind.segments[k.segments]);
  if (next < p.spine.size())
    bound =
        std::max(bound, compute + p.spine[next].work + behind.segments[next]);
  SmallVector<Time, 4> free(p.numLinks, x.now), left(p.numLinks, 0),
      tail(p.numLinks, kForever);
  for (int s = 0; s != kStreams; ++s) {
    size_t i = k.begun[s];
    if (k.isUnderWay(s)) {
      const Item &item = streams[s][i - 1];
      bound = std::max(bound, x.end[s] + item.tail);
      // While one works, its link does not rest; others may overtake it.
      if (x.workFrom[s] <= x.now) {
        free[item.link] = std::max(free[item.link], x.end[s]);
        tail[item.link] = std::min(tail[item.link], item.tail);
      }
    }
    if (i == streams[s].size())
      continue;
    const Item &item = streams[s][i];
    bound = std::max(bound, getEarliest(x, s, compute, next) + item.latency +
                                item.work + item.tail);
    for (Id l = 0; l != p.numLinks; ++l)
      if (Time work = linkWork[s][i][l]) {
        left[l] += work;
        tail[l] = std::min(tail[l], leastTail[s][i]);
      }
  }
  for (Id l = 0; l != p.numLinks; ++l)
    if (left[l])
      bound = std::max(bound, free[l] + left[l] + tail[l]);
  return bound;
}

//===----------------------------------------------------------------------===//
// Events
//===----------------------------------------------------------------------===//

Detail Search::getDetail(const Label &x) const {
  int32_t running = x.key.running == Key::Tail;
  Detail detail;
  detail.computeEnd = x.computeEnd;
  detail.bytes = x.bytes + tailsFreed[x.tails - running];
  detail.end = x.end;
  for (int s = 0; s != kStreams; ++s)
    detail.workFrom[s] = x.workFrom[s] > x.now ? x.workFrom[s] : 0;
  detail.casts = x.casts;
  return detail;
}

static bool isBeaten(const Brief &brief, const Detail &detail,
                     const Rivals &rivals) {
  for (auto [other, its] : llvm::zip_equal(rivals.briefs, rivals.details))
    if (other.mayBeat(brief) && its.beats(detail))
      return true;
  return false;
}

void Search::dropBeaten(const Brief &brief, const Detail &detail,
                        Rivals &rivals) {
  size_t kept = 0;
  for (size_t i = 0, e = rivals.briefs.size(); i != e; ++i) {
    Brief &other = rivals.briefs[i];
    if (brief.mayBeat(other) && detail.beats(rivals.details[i])) {
      beaten[other.label] = true;
      continue;
    }
    if (kept != i) {
      rivals.briefs[kept] = other;
      rivals.details[kept] = rivals.details[i];
    }
    ++kept;
  }
  rivals.briefs.truncate(kept);
  rivals.details.truncate(kept);
}

void Search::add(Label x) {
  if (isSimulated())
    findEnds(*this, x);
  if (options.equalsOnly)
    x.key.moment = hashLeft(x);
  x.bound = getBound(x);
  if (x.bound >= options.enough)
    return;
  x.score = x.bound + (x.bound - x.now) / 64 * options.haste;
  ++x.depth;
  Brief brief = {x.now, x.bound, x.tails, int32_t(labels.size())};
  Detail detail = getDetail(x);
  Rivals &rivals = rivalsOf[x.key];
  comparisons += rivals.briefs.size();
  if (isBeaten(brief, detail, rivals))
    return;
  dropBeaten(brief, detail, rivals);
  rivals.briefs.push_back(brief);
  rivals.details.push_back(detail);
  labels.push_back(x);
  beaten.push_back(false);
  open.push(labels.size() - 1);
}

static void compute(Time work, Label &x) {
  x.computeEnd = x.now + work;
  x.left.compute = work * kFullRate;
}

void Search::beginSegment(Label x) {
  size_t segment = x.key.segments;
  if (segment == p.spine.size())
    return;
  for (int s = 0; s != kStreams; ++s)
    if (x.key.over(s) < needs[segment][s])
      return;
  x.bytes += takes[segment];
  if (x.bytes + p.spine[segment].live > room)
    return;
  x.key.running = Key::Segment;
  compute(p.spine[segment].work, x);
  add(std::move(x));
}

void Search::beginTail(Label x) {
  if (x.tails == getTailsReady(x.key))
    return;
  x.key.running = Key::Tail;
  compute(p.floating[tails[x.tails++]].work, x);
  add(std::move(x));
}

void Search::beginCast(Label x, int s) {
  if (size_t(x.casts[s]) == casts[s].size())
    return;
  const FloatingOp &op = p.floating[casts[s][x.casts[s]++]];
  x.bytes += op.heldBytes;
  if (x.bytes + spineBytes(x.key) > room)
    return;
  x.key.running = Key::Cast + s;
  compute(op.work, x);
  add(std::move(x));
}

void Search::beginTransfer(Label x, int s) {
  if (size_t(x.key.begun[s]) == streams[s].size() || x.key.isUnderWay(s) ||
      !isReady(x, s))
    return;
  const Item &item = streams[s][x.key.begun[s]];
  for (auto [other, count] : item.after)
    if (x.key.over(other) < count)
      return;
  x.bytes += item.takes;
  if (x.bytes + spineBytes(x.key) > room)
    return;
  ++x.key.begun[s];
  x.key.underWay |= 1u << s;
  if (isSimulated()) {
    x.left.latency[s] = item.latency * kFullRate;
    x.left.work[s] = item.work * kFullRate;
    return add(std::move(x));
  }
  SmallVector<int, kStreams> sharers;
  for (int other = 0; other != kStreams; ++other)
    if (other != s && x.key.isUnderWay(other) &&
        getLast(x.key, other).link == item.link)
      sharers.push_back(other);
  if (!sharers.empty() && options.links == Links::Exclusive)
    return;
  llvm::sort(sharers, [&](int a, int b) {
    return std::make_pair(x.end[a], a) < std::make_pair(x.end[b], b);
  });
  for (size_t i = 0; i <= sharers.size(); ++i)
    shareLink(x, s, llvm::ArrayRef(sharers).take_front(i),
              llvm::ArrayRef(sharers).drop_front(i));
}

/// The transfer of stream @s that begins is over behind those of @before and
/// before those of @behind, which are under way on its link. They share it
/// evenly; here the link works on one after the other, in the order in which
/// they are over. So each is over no later, and whoever begins earlier keeps
/// nobody waiting who is over before it.
void Search::shareLink(Label x, int s, llvm::ArrayRef<int> before,
                       llvm::ArrayRef<int> behind) {
  const Item &item = getLast(x.key, s);
  auto isWorking = [&](int other) { return x.workFrom[other] <= x.now; };
  // Without a latency, to wait for all others takes as long.
  if (!before.empty() && behind.empty() && !item.latency &&
      llvm::all_of(before, isWorking))
    return;
  Time from = x.workFrom[s] = x.now + item.latency, busy = x.now;
  Time own = 0, work = 0;
  bool rests = true;
  // The link does not rest while one of those that have come works on it; until
  // then it begins with the first of them. When that one is over may count what
  // came before it. Returns when all can be done.
  auto addWork = [&](int other) {
    if (other == s) {
      own = item.work;
    } else if (isWorking(other)) {
      rests = false;
      busy = std::max(busy, x.end[other]);
      work = 0;
    } else {
      from = std::min(from, x.workFrom[other]);
      work += getLast(x.key, other).work;
    }
    return (rests ? from : busy) + work + own;
  };
  Time end = x.workFrom[s] + item.work;
  for (int other : before)
    end = std::max({end, x.end[other], addWork(other)});
  x.end[s] = std::max(end, addWork(s));
  for (int other : behind)
    x.end[other] = std::max(x.end[other] + (isWorking(other) ? item.work : 0),
                            addWork(other));
  add(std::move(x));
}

/// To when something is over. Returns what is, as runOn does.
static int goToNext(Label &x) {
  int next = x.key.running ? kCompute : kNothing;
  Time when = x.key.running ? x.computeEnd : x.now;
  for (int s = 0; s != kStreams; ++s)
    if (x.key.isUnderWay(s) && (next == kNothing || x.end[s] < when)) {
      next = s;
      when = x.end[s];
    }
  x.now = std::max(x.now, when);
  return next;
}

/// Nothing begins until something is over.
void Search::endNext(Label x) {
  int next = isSimulated() ? runOn(*this, x) : goToNext(x);
  if (next == kNothing)
    return;
  if (next == kCompute) {
    if (x.key.running == Key::Segment)
      x.bytes -= frees[x.key.segments++];
    else if (x.key.running == Key::Tail)
      x.bytes -= tailsFreed[x.tails] - tailsFreed[x.tails - 1];
    x.key.running = Key::Nothing;
    x.computeEnd = 0;
  } else {
    x.bytes -= getLast(x.key, next).frees;
    x.key.underWay &= ~(1u << next);
    x.workFrom[next] = x.end[next] = 0;
  }
  add(std::move(x));
}

void Search::expand(const Label &x) {
  for (int s = 0; s != kStreams; ++s)
    beginTransfer(x, s);
  if (!x.key.running) {
    beginSegment(x);
    beginTail(x);
    for (int s = 0; s != kStreams; ++s)
      beginCast(x, s);
  }
  endNext(x);
}

//===----------------------------------------------------------------------===//
// The way
//===----------------------------------------------------------------------===//

/// The events on the way to a label, as an order that says of all that was over
/// when something began that it must be. A transfer is issued where there is
/// room for it from then on; that its link is busy needs no place. What slows
/// others down is issued where it began: it may have waited for its own sake.
Schedule Search::trace(int32_t at) const {
  std::vector<int32_t> way;
  for (; at >= 0; at = labels[at].parent)
    way.push_back(at);
  std::reverse(way.begin(), way.end());
  size_t n = p.transfers.size(), lineSize = p.spine.size() + p.floating.size();
  Schedule result;
  result.place.assign(n, 0);
  result.known.assign(n, lineSize);
  result.after.resize(n);
  result.placeCause.assign(n, Cause::None);
  PerStream<Id> roomFrom;
  roomFrom.fill(-1);
  PerStream<bool> lacksRoom = {};
  for (size_t i = 1; i < way.size(); ++i) {
    const Label &from = labels[way[i - 1]], &to = labels[way[i]];
    Id here = result.line.size() - (from.key.running != Key::Nothing);
    for (int s = 0; s != kStreams; ++s) {
      if (size_t(from.key.begun[s]) == streams[s].size() || !isReady(from, s))
        continue;
      int64_t takes = streams[s][from.key.begun[s]].takes;
      bool fits = from.bytes + takes + spineBytes(from.key) <= room;
      lacksRoom[s] |= !fits;
      roomFrom[s] = !fits ? -1 : roomFrom[s] < 0 ? here : roomFrom[s];
    }
    if (from.key.running == Key::Nothing && to.key.running != Key::Nothing) {
      result.line.push_back(getLineOp(from, to));
      if (to.key.running == Key::Segment)
        learnInputs(to.key.segments, result);
    }
    for (int s = 0; s != kStreams; ++s) {
      if (from.key.begun[s] != to.key.begun[s]) {
        const Item &item = streams[s][from.key.begun[s]];
        Id last = result.issue.empty() ? 0 : result.place[result.issue.back()];
        result.place[item.transfer] =
            std::max(isSimulated() ? here : roomFrom[s], last);
        result.placeCause[item.transfer] =
            lacksRoom[s] ? Cause::Memory : item.floorCause;
        result.issue.push_back(item.transfer);
        comeAfter(from, s, result);
        roomFrom[s] = -1;
        lacksRoom[s] = false;
      } else if (from.key.over(s) != to.key.over(s)) {
        // Only what frees something need be known.
        const Item &item = getLast(to.key, s);
        if (item.frees || isSimulated())
          result.known[item.transfer] = result.line.size();
      }
    }
  }
  return result;
}

/// Compute waits for what @segment reads.
void Search::learnInputs(int32_t segment, Schedule &schedule) const {
  for (int s = 0; s != kStreams; ++s)
    if (int32_t count = needs[segment][s]) {
      Id &known = schedule.known[streams[s][count - 1].transfer];
      known = std::min<Id>(known, schedule.line.size() - 1);
    }
}

/// What compute begins between two labels.
LineOp Search::getLineOp(const Label &from, const Label &to) const {
  if (to.key.running == Key::Segment)
    return {false, to.key.segments};
  if (to.key.running == Key::Tail)
    return {true, tails[from.tails]};
  int s = to.key.running - Key::Cast;
  return {true, casts[s][from.casts[s]]};
}

/// The next transfer of @s comes after the last one of each other stream that
/// is over, unless compute has waited for that before.
void Search::comeAfter(const Label &from, int s, Schedule &schedule) const {
  Id t = schedule.issue.back();
  for (int other = 0; other != kStreams; ++other) {
    int32_t over = from.key.over(other);
    if (other == s || !over)
      continue;
    Id a = streams[other][over - 1].transfer;
    if (schedule.known[a] >= schedule.place[t])
      schedule.after[t].push_back(a);
  }
}

/// A state that is looked at may be compared with so many others on average:
/// they take time, too. Where the bound is at stake, longer.
constexpr int64_t kComparisons = 200, kSimulatedComparisons = 50;

EventSearchResult Search::run() {
  Time least = options.bound;
  int64_t effort = options.effort;
  int64_t comparable =
      effort * (isSimulated() ? kSimulatedComparisons : kComparisons);
  add({});
  while (!open.empty()) {
    int32_t at = open.top();
    open.pop();
    if (beaten[at])
      continue;
    if (!options.haste && (!isSimulated() || options.equalsOnly))
      least = std::max(least, labels[at].bound);
    if (isEnd(labels[at]))
      return {least, trace(at)};
    if (effort-- == 0 || comparisons > comparable)
      return {least, std::nullopt};
    Label x = labels[at];
    x.parent = at;
    expand(x);
  }
  return {options.enough, std::nullopt};
}

EventSearchResult
mlir::fsdp::sched::searchEvents(const ScheduleProblem &problem,
                                const LeastTails &behind,
                                const EventSearchOptions &options) {
  if (options.bound >= options.enough)
    return {options.bound, std::nullopt};
  return Search(problem, behind, options).run();
}
