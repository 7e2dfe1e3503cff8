//===- Makespan.cpp - What a schedule takes -------------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Analysis/Schedule/Makespan.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>

using namespace mlir::fsdp;
using namespace mlir::fsdp::sched;
using llvm::SmallVector;

namespace {
struct Player {
  Player(const ScheduleProblem &problem, const Schedule &schedule);
  Simulation run();

private:
  bool tryCompute();
  bool tryTransfer(int queue);
  void advance();
  void finishTransfer(Id t);
  void finishCompute();
  int getRate(int queue, QueueMask mask) const;
  void expose(Time from, Time to, Id t);
  void addMemory();

  const ScheduleProblem &problem;
  const Schedule &schedule;
  Simulation result;
  Time now = 0;
  size_t next = 0;
  bool running = false;
  int64_t computeLeft = 0;
  Time computeEnd = 0;
  /// Transfer by queue: order, how many have begun, what is left of the last.
  std::array<std::vector<Id>, kNumQueues> order;
  std::array<size_t, kNumQueues> begun = {};
  std::array<bool, kNumQueues> active = {};
  std::array<int64_t, kNumQueues> latencyLeft = {}, workLeft = {};
  std::vector<bool> done;
  std::vector<SmallVector<Id, 2>> data;
  /// By line op: transfers that it waits for; the last entry is the end.
  std::vector<SmallVector<Id, 2>> waits;
  std::vector<Id> segmentAt, floatingAt;
  std::vector<SmallVector<Id, 1>> castsOf;
  /// What slowed the op that runs, weighted.
  SmallVector<std::pair<Id, int64_t>, 4> slowedBy;
};
} // namespace

Player::Player(const ScheduleProblem &problem, const Schedule &schedule)
    : problem(problem), schedule(schedule) {
  size_t n = problem.transfers.size();
  done.resize(n);
  data = getPredecessors(problem);
  castsOf.resize(n);
  for (Id t : schedule.issue)
    order[int(problem.transfers[t].queue)].push_back(t);
  segmentAt.resize(problem.spine.size());
  floatingAt.resize(problem.floating.size());
  waits.resize(schedule.line.size() + 1);
  for (auto [i, op] : llvm::enumerate(schedule.line))
    (op.floating ? floatingAt : segmentAt)[op.id] = i;
  for (size_t t = 0; t != n; ++t) {
    waits[schedule.known[t]].push_back(t);
    if (problem.transfers[t].firstUse >= 0)
      waits[segmentAt[problem.transfers[t].firstUse]].push_back(t);
    waits.back().push_back(t);
  }
  for (auto [f, op] : llvm::enumerate(problem.floating)) {
    llvm::append_range(waits[floatingAt[f]], op.after);
    if (op.before >= 0)
      castsOf[op.before].push_back(f);
  }
  result.compute.resize(schedule.line.size());
  result.transfers.resize(n);
  result.exposedBy.resize(n);
}

bool Player::tryCompute() {
  if (running || next == schedule.line.size())
    return false;
  if (!llvm::all_of(waits[next], [&](Id t) { return done[t]; }))
    return false;
  LineOp op = schedule.line[next];
  Span &span = result.compute[next];
  span.begin = now;
  span.alone =
      op.floating ? problem.floating[op.id].work : problem.spine[op.id].work;
  span.stall = now - computeEnd;
  if (span.stall) {
    for (Id t : waits[next])
      if (result.transfers[t].end == now)
        span.blocker = t;
    span.cause = Cause::Data;
    expose(computeEnd, now, span.blocker);
  }
  running = true;
  computeLeft = span.alone * kFullRate;
  slowedBy.clear();
  return true;
}

bool Player::tryTransfer(int queue) {
  if (active[queue] || begun[queue] == order[queue].size())
    return false;
  Id t = order[queue][begun[queue]];
  const Transfer &transfer = problem.transfers[t];
  size_t place = schedule.place[t];
  auto isDone = [&](Id a) { return done[a]; };
  if (place > next || !llvm::all_of(data[t], isDone) ||
      !llvm::all_of(schedule.after[t], isDone))
    return false;

  Span &span = result.transfers[t];
  span.begin = now;
  span.alone = transfer.cost.total();
  // When its input was there, and what came last.
  Time input = 0;
  if (transfer.ready >= 0)
    input = result.compute[segmentAt[transfer.ready]].end;
  for (Id f : castsOf[t])
    input = std::max(input, result.compute[floatingAt[f]].end);
  Id lastData = -1;
  for (Id a : data[t])
    if (result.transfers[a].end >= input) {
      input = result.transfers[a].end;
      lastData = a;
    }
  span.stall = now - input;
  if (input == now) {
    span.cause = Cause::Data;
    span.blocker = lastData;
  } else if (place && result.compute[place - 1].end == now) {
    span.cause = schedule.placeCause[t];
  } else if (begun[queue] &&
             result.transfers[order[queue][begun[queue] - 1]].end == now) {
    span.cause = Cause::QueueBusy;
    span.blocker = order[queue][begun[queue] - 1];
  } else {
    for (Id a : schedule.after[t])
      if (result.transfers[a].end == now) {
        bool link = problem.transfers[a].cost.link == transfer.cost.link;
        span.cause = link ? Cause::LinkBusy : Cause::Memory;
        span.blocker = a;
      }
  }
  ++begun[queue];
  active[queue] = true;
  latencyLeft[queue] = transfer.cost.latency * kFullRate;
  workLeft[queue] = transfer.cost.work * kFullRate;
  return true;
}

int Player::getRate(int queue, QueueMask mask) const {
  int rate =
      problem.cost ? problem.cost->rate(Queue(queue), mask) : kFullRate;
  if (queue == 0 || latencyLeft[queue] > 0)
    return rate;
  Id link = problem.transfers[order[queue][begun[queue] - 1]].cost.link;
  int sharers = 0;
  for (int q = 1; q != kNumQueues; ++q)
    sharers += active[q] && latencyLeft[q] <= 0 &&
               problem.transfers[order[q][begun[q] - 1]].cost.link == link;
  return std::max(1, rate / sharers);
}

void Player::finishTransfer(Id t) {
  done[t] = true;
  result.transfers[t].end = now;
}

/// Closes the op that runs; what it lost goes to the transfers beside it.
void Player::finishCompute() {
  Span &span = result.compute[next++];
  span.end = computeEnd = now;
  running = false;
  Time lost = span.end - span.begin - span.alone;
  int64_t weights = 0;
  for (auto &entry : slowedBy)
    weights += entry.second;
  for (auto &entry : slowedBy) {
    Time part = weights ? Time(double(lost) * entry.second / weights) : 0;
    part = &entry == &slowedBy.back() ? lost : std::min(part, lost);
    result.exposedBy[entry.first] += part;
    weights -= entry.second;
    lost -= part;
  }
}

void Player::advance() {
  QueueMask mask = running ? 1 : 0;
  for (int q = 1; q != kNumQueues; ++q)
    mask |= active[q] << q;
  std::array<int, kNumQueues> rate;
  Time step = std::numeric_limits<Time>::max();
  auto bound = [&](int64_t left, int r) {
    step = std::min<Time>(step, (left + r - 1) / r);
  };
  if (running) {
    rate[0] = getRate(0, mask);
    bound(computeLeft, rate[0]);
  }
  for (int q = 1; q != kNumQueues; ++q)
    if (active[q]) {
      rate[q] = getRate(q, mask);
      bound(latencyLeft[q] > 0 ? latencyLeft[q] : workLeft[q], rate[q]);
    }
  now += step;
  for (int q = 1; q != kNumQueues; ++q) {
    if (!active[q])
      continue;
    int64_t &left = latencyLeft[q] > 0 ? latencyLeft[q] : workLeft[q];
    left = std::max<int64_t>(0, left - step * rate[q]);
    Id t = order[q][begun[q] - 1];
    if (running && rate[0] < kFullRate && step) {
      auto *entry = llvm::find_if(slowedBy, [&](auto &e) { return e.first == t; });
      if (entry == slowedBy.end())
        slowedBy.push_back({t, step});
      else
        entry->second += step;
    }
    if (latencyLeft[q] <= 0 && workLeft[q] <= 0) {
      active[q] = false;
      finishTransfer(t);
    }
  }
  if (running) {
    computeLeft = std::max<int64_t>(0, computeLeft - step * rate[0]);
    if (computeLeft == 0)
      finishCompute();
  }
}

/// Compute waited from @from to @to for @t: blames what was under way, back
/// along the chain of what each waited for.
void Player::expose(Time from, Time to, Id t) {
  while (to > from && t >= 0) {
    const Span &span = result.transfers[t];
    Time begin = std::max(from, span.begin);
    result.exposedBy[t] += to - begin;
    to = begin;
    t = span.blocker;
  }
}

Simulation Player::run() {
  while (true) {
    bool progress = true;
    while (progress) {
      progress = tryCompute();
      for (int q = 1; q != kNumQueues; ++q)
        progress |= tryTransfer(q);
    }
    if (!running && !llvm::is_contained(active, true))
      break;
    advance();
  }
  result.step = now;
  Id last = -1;
  for (Id t : waits.back())
    if (result.transfers[t].end == now)
      last = t;
  expose(computeEnd, now, last);
  result.exposed = result.step;
  for (const Span &span : result.compute)
    result.exposed -= span.alone;
  addMemory();
  return std::move(result);
}

void Player::addMemory() {
  std::vector<std::pair<Time, int64_t>> changes;
  auto add = [&](Time from, Time to, int64_t bytes) {
    if (bytes && from < to) {
      changes.push_back({from, bytes});
      changes.push_back({to, -bytes});
    }
  };
  std::vector<int> lastTail = getLastTail(problem);
  std::vector<Id> tails = getTailOrder(problem);
  for (size_t s = 0; s != problem.spine.size(); ++s) {
    const Span &span = result.compute[segmentAt[s]];
    add(span.begin, span.end, problem.spine[s].live);
    if (s)
      add(result.compute[segmentAt[s - 1]].end, span.begin,
          std::min(problem.spine[s - 1].live, problem.spine[s].live));
  }
  for (auto [t, transfer] : llvm::enumerate(problem.transfers)) {
    const Span &span = result.transfers[t];
    Time end = result.step;
    if (transfer.lastUse >= 0)
      end = result.compute[segmentAt[transfer.lastUse]].end;
    else if (lastTail[t] >= 0 && size_t(lastTail[t]) < tails.size())
      end = result.compute[floatingAt[tails[lastTail[t]]]].end;
    add(span.begin, end, transfer.dstBytes);
    if (transfer.srcBytes)
      add(result.compute[segmentAt[transfer.srcBegin]].begin, span.end,
          transfer.srcBytes);
    for (Id f : castsOf[t])
      add(result.compute[floatingAt[f]].begin, span.end,
          problem.floating[f].heldBytes);
  }
  llvm::sort(changes);
  int64_t bytes = result.peak = problem.fixedBytes;
  result.memory.push_back({0, bytes});
  for (size_t i = 0; i != changes.size();) {
    Time at = changes[i].first;
    for (; i != changes.size() && changes[i].first == at; ++i)
      bytes += changes[i].second;
    result.memory.push_back({at, bytes});
    result.peak = std::max(result.peak, bytes);
  }
}

Simulation mlir::fsdp::sched::simulate(const ScheduleProblem &problem,
                                       const Schedule &schedule) {
  return Player(problem, schedule).run();
}
