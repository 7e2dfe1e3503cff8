//===- SchedulePeak.cpp - Legality and memory of a schedule ---------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Schedule/SchedulePeak.h"
#include "RangeSum.h"
#include "fsdp/Schedule/Makespan.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Twine.h"

#include <algorithm>

using namespace mlir::fsdp;
using namespace mlir::fsdp::sched;
using llvm::SmallVector;
using llvm::Twine;

//===----------------------------------------------------------------------===//
// Legality
//===----------------------------------------------------------------------===//

static std::string checkLine(const ScheduleProblem &p, const Schedule &s,
                             std::vector<Id> &segmentAt,
                             std::vector<Id> &floatingAt) {
  segmentAt.assign(p.spine.size(), -1);
  floatingAt.assign(p.floating.size(), -1);
  Id expected = 0;
  for (auto [i, op] : llvm::enumerate(s.line)) {
    auto &at = op.floating ? floatingAt : segmentAt;
    if (op.id < 0 || size_t(op.id) >= at.size() || at[op.id] >= 0)
      return ("line op " + Twine(i) + ": expected each op once").str();
    at[op.id] = i;
    if (!op.floating && op.id != expected++)
      return ("line op " + Twine(i) + ": expected segment " +
              Twine(expected - 1) + ", got " + Twine(op.id))
          .str();
  }
  if (s.line.size() != p.spine.size() + p.floating.size())
    return ("expected " + Twine(p.spine.size() + p.floating.size()) +
            " ops on the line, got " + Twine(s.line.size()))
        .str();
  for (auto [f, op] : llvm::enumerate(p.floating))
    for (Id g : op.afterFloating)
      if (floatingAt[g] > floatingAt[f])
        return ("floating op " + Twine(f) + ": expected floating op " +
                Twine(g) + " before it")
            .str();
  return "";
}

std::string mlir::fsdp::sched::checkSchedule(const ScheduleProblem &p,
                                             const Schedule &s) {
  std::vector<Id> segmentAt, floatingAt;
  if (std::string e = checkLine(p, s, segmentAt, floatingAt); !e.empty())
    return e;
  size_t n = p.transfers.size();
  if (s.issue.size() != n || s.place.size() != n || s.known.size() != n ||
      s.after.size() != n || s.placeCause.size() != n)
    return ("expected " + Twine(n) + " transfers, got " + Twine(s.issue.size()))
        .str();
  std::vector<Id> issuedAt(n, -1);
  std::array<std::vector<Id>, kNumQueues> order;
  Id last = 0;
  for (auto [i, t] : llvm::enumerate(s.issue)) {
    if (t < 0 || size_t(t) >= n || issuedAt[t] >= 0)
      return ("start " + Twine(i) + ": expected each transfer once").str();
    issuedAt[t] = i;
    order[int(p.transfers[t].queue)].push_back(t);
    if (s.place[t] < last || size_t(s.place[t]) > s.line.size())
      return ("transfer " + Twine(t) + ": expected a place from " +
              Twine(last) + " to " + Twine(s.line.size()) + ", got " +
              Twine(s.place[t]))
          .str();
    last = s.place[t];
  }
  for (int q = 1; q != kNumQueues; ++q)
    if (order[q] != getQueueOrder(p, Queue(q)))
      return ("queue " + Twine(q) + ": expected its transfers in order").str();

  PlaceFloor floor = getPlaceFloor(p);
  std::vector<SmallVector<Id, 2>> data = getPredecessors(p);
  for (size_t t = 0; t != n; ++t) {
    const Transfer &x = p.transfers[t];
    auto fail = [&](const Twine &what) {
      return ("transfer " + Twine(t) + ": " + what).str();
    };
    if (floor.place[t] && s.place[t] <= segmentAt[floor.place[t] - 1])
      return fail("expected " + Twine(floor.place[t]) +
                  " segments before its start");
    if (x.firstUse >= 0 && s.place[t] > segmentAt[x.firstUse])
      return fail("expected its start before its first use");
    if (s.known[t] < s.place[t] || size_t(s.known[t]) > s.line.size())
      return fail("expected its wait behind its start");
    for (llvm::ArrayRef<Id> list :
         {llvm::ArrayRef<Id>(data[t]), llvm::ArrayRef<Id>(s.after[t])})
      for (Id a : list)
        if (a < 0 || size_t(a) >= n || issuedAt[a] >= issuedAt[t])
          return fail("expected transfer " + Twine(a) + " issued before it");
  }
  for (int q = 1; q != kNumQueues; ++q) {
    std::vector<Id> casts = getCastOrder(p, Queue(q));
    for (size_t i = 1; i < casts.size(); ++i)
      if (floatingAt[casts[i - 1]] > floatingAt[casts[i]])
        return ("queue " + Twine(q) + ": expected its casts in order").str();
  }
  std::vector<Id> tails = getTailOrder(p);
  for (size_t i = 1; i < tails.size(); ++i)
    if (floatingAt[tails[i - 1]] > floatingAt[tails[i]])
      return ("floating op " + Twine(tails[i]) + ": expected floating op " +
              Twine(tails[i - 1]) + " before it, as tails run")
          .str();
  for (auto [f, op] : llvm::enumerate(p.floating)) {
    if (op.before >= 0 && s.place[op.before] <= floatingAt[f])
      return ("floating op " + Twine(f) + ": expected transfer " +
              Twine(op.before) + " behind it")
          .str();
    for (Id t : op.after)
      if (s.place[t] > floatingAt[f])
        return ("floating op " + Twine(f) + ": expected transfer " + Twine(t) +
                " started before it")
            .str();
  }
  return "";
}

//===----------------------------------------------------------------------===//
// Peak
//===----------------------------------------------------------------------===//

namespace {
/// By queue, how many transfers are surely complete.
using Clock = std::array<int32_t, kNumQueues>;

class PeakFinder {
public:
  PeakFinder(const ScheduleProblem &p, const Schedule &s);
  /// The peak; or, where that is more, some state above @enough.
  int64_t find(int64_t least, int64_t enough);
  /// By segment, as getPeaks.
  std::vector<int64_t> findAll();

private:
  /// Calls @weigh for each place of compute: the first and the last segment
  /// that it belongs to (a border to both), the spine's bytes, what is known.
  template <typename Weigh>
  void visit(Weigh weigh);
  void join(Clock &a, const Clock &b) const {
    for (int q = 0; q != kNumQueues; ++q)
      a[q] = std::max(a[q], b[q]);
  }
  void joinEnd(Clock &a, Id t) {
    join(a, clock[t]);
    int q = int(p.transfers[t].queue);
    a[q] = std::max(a[q], rank[t] + 1);
  }
  void issue(Id t, const Clock &compute);
  int64_t getBound(const Clock &known) const;
  int64_t getHeaviest(const Clock &known) const;
  int64_t getHeaviestBeside(const Clock &known, int32_t fetched) const;

  const ScheduleProblem &p;
  const Schedule &s;
  std::array<std::vector<Id>, kNumQueues> order;
  std::vector<int32_t> rank;
  std::vector<SmallVector<Id, 2>> data;
  /// By transfer: what is complete when it begins.
  std::vector<Clock> clock;
  std::array<int32_t, kNumQueues> issued = {};
  /// By queue: results and inputs that are there, by rank.
  std::vector<RangeSum> results, inputs;
};
} // namespace

PeakFinder::PeakFinder(const ScheduleProblem &p, const Schedule &s)
    : p(p), s(s), rank(p.transfers.size()), data(getPredecessors(p)),
      clock(p.transfers.size()) {
  for (int q = 0; q != kNumQueues; ++q) {
    if (q)
      order[q] = getQueueOrder(p, Queue(q));
    for (auto [i, t] : llvm::enumerate(order[q]))
      rank[t] = i;
    results.emplace_back(order[q].size());
    inputs.emplace_back(order[q].size());
  }
}

void PeakFinder::issue(Id t, const Clock &compute) {
  int q = int(p.transfers[t].queue);
  clock[t] = compute;
  if (rank[t])
    joinEnd(clock[t], order[q][rank[t] - 1]);
  for (Id a : data[t])
    joinEnd(clock[t], a);
  for (Id a : s.after[t])
    joinEnd(clock[t], a);
  results[q].add(rank[t], p.transfers[t].dstBytes);
  ++issued[q];
}

/// No state in which compute stands where it stands is heavier: each queue as
/// if the others did not bind it.
int64_t PeakFinder::getBound(const Clock &known) const {
  int64_t bytes = 0;
  for (int q = 1; q != kNumQueues; ++q)
    bytes += results[q].below(issued[q]) + inputs[q].from(known[q]);
  return bytes;
}

/// The heaviest state in which compute stands where it stands. Fetches from the
/// host that have begun say what is over; per number of these, of all that is
/// left.
int64_t PeakFinder::getHeaviest(const Clock &known) const {
  constexpr int fetch = int(Queue::H2D);
  int64_t most = 0;
  for (int32_t begun = known[fetch]; begun <= issued[fetch]; ++begun) {
    Clock after = known;
    if (begun > known[fetch])
      join(after, clock[order[fetch][begun - 1]]);
    most = std::max(most, results[fetch].below(begun) +
                              inputs[fetch].from(after[fetch]) +
                              getHeaviestBeside(after, begun));
  }
  return most;
}

/// The same for the other queues, where so many fetches have begun. Gathers
/// that have begun say which reductions are over; per number of these, of the
/// heaviest number of gathers. That need not be the most: they may begin with
/// little and say that much is over.
int64_t PeakFinder::getHeaviestBeside(const Clock &known,
                                      int32_t fetched) const {
  constexpr int gather = int(Queue::AllGather), reduce = int(Queue::Reduce),
                sum = int(Queue::AllReduce), send = int(Queue::D2H),
                fetch = int(Queue::H2D);
  int64_t most = 0;
  int32_t g = known[gather];
  auto getHeld = [&](int32_t begun, int32_t over) {
    int32_t sent = known[send];
    if (begun > 0)
      sent = std::max(sent, clock[order[gather][begun - 1]][send]);
    return results[gather].below(begun) + inputs[gather].from(over) +
           inputs[send].from(sent);
  };
  auto mayBegin = [&](int32_t next, int32_t over) {
    const Clock &needed = clock[order[gather][next]];
    return needed[reduce] <= over && needed[fetch] <= fetched;
  };
  // Numbers of gathers, the last one under way, with what they hold: those than
  // which no larger one holds as much.
  SmallVector<std::pair<int32_t, int64_t>, 8> underWay;
  size_t first = 0;
  auto getMostHeld = [&](int32_t complete) {
    while (first < underWay.size() && underWay[first].first <= complete)
      ++first;
    int64_t held = getHeld(complete, complete);
    return first < underWay.size() ? std::max(held, underWay[first].second)
                                   : held;
  };
  for (int32_t over = known[reduce]; over <= issued[reduce]; ++over) {
    while (g < issued[gather] && mayBegin(g, over)) {
      ++g;
      int64_t held = getHeld(g, g - 1);
      while (underWay.size() > first && underWay.back().second <= held)
        underWay.pop_back();
      underWay.push_back({g, held});
    }
    // The last one of them may have needed gathers to be complete.
    auto weigh = [&](int32_t begun) {
      int32_t complete = known[gather];
      if (begun > 0)
        complete = std::max(complete, clock[order[reduce][begun - 1]][gather]);
      if (complete <= g)
        most = std::max(most, getMostHeld(complete) +
                                  results[reduce].below(begun) +
                                  inputs[reduce].from(over));
    };
    weigh(over);
    if (over < issued[reduce])
      weigh(over + 1);
  }
  return most + results[sum].below(issued[sum]) + inputs[sum].from(known[sum]) +
         results[send].below(issued[send]);
}

template <typename Weigh>
void PeakFinder::visit(Weigh weigh) {
  size_t n = s.line.size();
  std::vector<SmallVector<Id, 2>> waits(n + 1), dead(n + 1);
  std::vector<Id> segmentAt(p.spine.size()), floatingAt(p.floating.size());
  for (auto [i, op] : llvm::enumerate(s.line))
    (op.floating ? floatingAt : segmentAt)[op.id] = i;
  std::vector<int> lastTail = getLastTail(p);
  std::vector<Id> tails = getTailOrder(p);
  std::vector<SmallVector<Id, 2>> begins(n);
  for (size_t t = 0; t != p.transfers.size(); ++t) {
    const Transfer &x = p.transfers[t];
    waits[s.known[t]].push_back(t);
    if (x.firstUse >= 0) {
      waits[segmentAt[x.firstUse]].push_back(t);
      dead[segmentAt[x.lastUse]].push_back(t);
    } else if (lastTail[t] >= 0 && size_t(lastTail[t]) < tails.size()) {
      // Tails run in order: the last one that reads it counts.
      dead[floatingAt[tails[lastTail[t]]]].push_back(t);
    }
    if (x.srcBytes)
      begins[segmentAt[x.srcBegin]].push_back(t);
  }
  for (auto [f, op] : llvm::enumerate(p.floating))
    llvm::append_range(waits[floatingAt[f]], op.after);

  Clock compute = {};
  size_t next = 0;
  Id segment = 0;
  for (size_t i = 0; i <= n; ++i) {
    for (; next != s.issue.size() && s.place[s.issue[next]] == Id(i); ++next)
      issue(s.issue[next], compute);
    int64_t border = getBorderBytes(p, segment);
    weigh(segment - 1, segment, border, compute);
    if (i == n)
      break;
    for (Id t : waits[i])
      joinEnd(compute, t);
    LineOp op = s.line[i];
    for (Id t : begins[i])
      inputs[int(p.transfers[t].queue)].add(rank[t], p.transfers[t].srcBytes);
    int64_t live = border;
    if (!op.floating) {
      live = p.spine[op.id].live;
      segment = op.id + 1;
    } else if (Id t = p.floating[op.id].before; t >= 0) {
      inputs[int(p.transfers[t].queue)].add(rank[t],
                                            p.floating[op.id].heldBytes);
    }
    weigh(segment - 1, op.floating ? segment : segment - 1, live, compute);
    for (Id t : dead[i])
      results[int(p.transfers[t].queue)].add(rank[t], -p.transfers[t].dstBytes);
  }
}

int64_t PeakFinder::find(int64_t least, int64_t enough) {
  int64_t peak = least;
  visit([&](Id, Id, int64_t spine, const Clock &compute) {
    int64_t state = p.fixedBytes + spine;
    if (peak <= enough && state + getBound(compute) > peak)
      peak = std::max(peak, state + getHeaviest(compute));
  });
  return peak;
}

std::vector<int64_t> PeakFinder::findAll() {
  std::vector<int64_t> peaks(p.spine.size());
  visit([&](Id first, Id last, int64_t spine, const Clock &compute) {
    int64_t bytes = p.fixedBytes + spine + getHeaviest(compute);
    for (Id s : {first, last})
      if (s >= 0 && size_t(s) < peaks.size())
        peaks[s] = std::max(peaks[s], bytes);
  });
  return peaks;
}

int64_t mlir::fsdp::sched::getPeak(const ScheduleProblem &problem,
                                   const Schedule &schedule) {
  return PeakFinder(problem, schedule)
      .find(/*least=*/problem.fixedBytes, /*enough=*/kNoBudget);
}

bool mlir::fsdp::sched::fitsBudget(const ScheduleProblem &problem,
                                   const Schedule &schedule) {
  // What is within the budget needs no closer look.
  int64_t budget = problem.budget;
  return PeakFinder(problem, schedule).find(budget, budget) <= budget;
}

std::vector<int64_t> mlir::fsdp::sched::getPeaks(const ScheduleProblem &problem,
                                                 const Schedule &schedule) {
  return PeakFinder(problem, schedule).findAll();
}
