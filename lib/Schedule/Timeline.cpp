//===- Timeline.cpp - What happens when -----------------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Schedule/Timeline.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cassert>
#include <numeric>
#include <tuple>

using namespace mlir::fsdp;
using namespace mlir::fsdp::sched;
using llvm::SmallVector;

namespace {
struct Player {
  explicit Player(const TimedProgram &program);
  Timeline run();

private:
  bool tryCompute();
  Id exposeStall();
  bool tryTransfer(int queue);
  void blameStart(Id start, OpSpan &span);
  void advance();
  void finishCompute();
  int getRate(int queue, QueueMask mask) const;
  void expose(Time from, Time to, Id start);
  const LinkCost &getCost(int queue) const {
    return program.ops[order[queue][begun[queue] - 1]].cost;
  }

  const TimedProgram &program;
  Timeline result;
  Time now = 0;
  /// Ops of each queue in their order, and how many have begun. Compute's hold
  /// its waits.
  std::array<std::vector<Id>, kNumQueues> order;
  std::array<size_t, kNumQueues> begun = {};
  std::array<bool, kNumQueues> active = {};
  std::array<int64_t, kNumQueues> latencyLeft = {}, workLeft = {};
  /// By start: compute ops before it.
  std::vector<Id> place;
  std::vector<bool> done;
  /// When compute did something last, and when it came to its next op.
  Time computeEnd = 0, arrived = 0;
  /// Starts that it waited for since.
  SmallVector<Id, 8> waited;
  /// What slowed the op that runs, weighted.
  SmallVector<std::pair<Id, int64_t>, 4> slowedBy;
};
} // namespace

Player::Player(const TimedProgram &program) : program(program) {
  size_t n = program.ops.size();
  done.resize(n);
  place.resize(n);
  for (auto [i, op] : llvm::enumerate(program.ops)) {
    place[i] = order[0].size();
    order[op.kind == TimedOp::Start ? unsigned(op.queue) : 0].push_back(i);
  }
  result.spans.resize(n);
  result.exposedBy.resize(n);
  result.slowedBy.resize(n);
}

/// begun[0] counts compute ops that are done, waits included.
bool Player::tryCompute() {
  if (active[0] || begun[0] == order[0].size())
    return false;
  Id next = order[0][begun[0]];
  const TimedOp &op = program.ops[next];
  OpSpan &span = result.spans[next];
  if (op.kind == TimedOp::Wait) {
    if (!done[op.start])
      return false;
    span.begin = arrived;
    span.end = arrived = now;
    span.stall = span.end - span.begin;
    if (span.stall) {
      span.why = Blocker::Wait;
      span.blocker = op.start;
    }
    waited.push_back(op.start);
    done[next] = true;
    ++begun[0];
    return true;
  }
  span.begin = now;
  span.alone = op.work;
  span.stall = now - computeEnd;
  if (span.stall) {
    span.why = Blocker::Wait;
    span.blocker = exposeStall();
  }
  active[0] = true;
  workLeft[0] = op.work * kFullRate;
  slowedBy.clear();
  return true;
}

/// Compute did nothing since it was done last: because of the transfer that it
/// waited for and that came last.
Id Player::exposeStall() {
  Id last = -1;
  for (Id start : waited)
    if (result.spans[start].end == now)
      last = start;
  waited.clear();
  expose(computeEnd, now, last);
  return last;
}

bool Player::tryTransfer(int queue) {
  if (active[queue] || begun[queue] == order[queue].size())
    return false;
  Id start = order[queue][begun[queue]];
  const TimedOp &op = program.ops[start];
  if (place[start] > Id(begun[0]) ||
      !llvm::all_of(op.after, [&](Id a) { return done[a]; }) ||
      (op.previous >= 0 && !done[op.previous]))
    return false;
  OpSpan &span = result.spans[start];
  span.begin = now;
  span.alone = op.cost.total();
  blameStart(start, span);
  ++begun[queue];
  active[queue] = true;
  latencyLeft[queue] = op.cost.latency * kFullRate;
  workLeft[queue] = op.cost.work * kFullRate;
  return true;
}

void Player::blameStart(Id start, OpSpan &span) {
  const TimedOp &op = program.ops[start];
  unsigned queue = unsigned(op.queue);
  Time input = 0;
  Id lastSent = -1;
  for (Id a : op.inputs) {
    if (program.ops[a].kind == TimedOp::Start && result.spans[a].end >= input)
      lastSent = a;
    input = std::max(input, result.spans[a].end);
  }
  if (lastSent >= 0 && result.spans[lastSent].end != input)
    lastSent = -1;
  span.stall = now - input;
  auto endsNow = [&](Id other) { return result.spans[other].end == now; };
  if (now == 0) {
    span.why = Blocker::None;
  } else if (input == now) {
    span.why = Blocker::Input;
    span.blocker = lastSent;
  } else if (place[start] && endsNow(order[0][place[start] - 1])) {
    span.why = Blocker::Order;
    // Behind a wait, it is the transfer that was waited for.
    span.blocker = program.ops[order[0][place[start] - 1]].start;
  } else if (begun[queue] && endsNow(order[queue][begun[queue] - 1])) {
    span.why = Blocker::Queue;
    span.blocker = order[queue][begun[queue] - 1];
  } else if (op.previous >= 0 && endsNow(op.previous)) {
    // Both are of one order, as if they were on one queue.
    span.why = Blocker::Queue;
    span.blocker = op.previous;
  } else {
    for (Id a : op.after)
      if (endsNow(a)) {
        span.why = program.ops[a].cost.link == op.cost.link ? Blocker::Link
                                                            : Blocker::Memory;
        span.blocker = a;
      }
  }
}

int Player::getRate(int queue, QueueMask mask) const {
  int rate = program.cost ? program.cost->rate(Queue(queue), mask) : kFullRate;
  if (queue == 0 || latencyLeft[queue] > 0)
    return rate;
  Id link = getCost(queue).link;
  int sharers = 0;
  for (int q = 1; q != kNumQueues; ++q)
    sharers += active[q] && latencyLeft[q] <= 0 && getCost(q).link == link;
  return std::max(1, rate / sharers);
}

/// Closes the op that runs; what it lost goes to the transfers beside it.
void Player::finishCompute() {
  Id op = order[0][begun[0]++];
  OpSpan &span = result.spans[op];
  span.end = computeEnd = arrived = now;
  waited.clear();
  done[op] = true;
  active[0] = false;
  Time lost = span.end - span.begin - span.alone;
  int64_t weights = 0;
  for (auto &entry : slowedBy)
    weights += entry.second;
  for (auto &entry : slowedBy) {
    Time part = weights ? Time(double(lost) * entry.second / weights) : 0;
    part = &entry == &slowedBy.back() ? lost : std::min(part, lost);
    result.exposedBy[entry.first] += part;
    result.slowedBy[entry.first] += part;
    weights -= entry.second;
    lost -= part;
  }
}

void Player::advance() {
  QueueMask mask = 0;
  for (int q = 0; q != kNumQueues; ++q)
    mask |= active[q] << q;
  std::array<int, kNumQueues> rate = {};
  Time step = std::numeric_limits<Time>::max();
  for (int q = 0; q != kNumQueues; ++q)
    if (active[q]) {
      rate[q] = getRate(q, mask);
      int64_t left = q && latencyLeft[q] > 0 ? latencyLeft[q] : workLeft[q];
      step = std::min<Time>(step, (left + rate[q] - 1) / rate[q]);
    }
  now += step;
  for (int q = 1; q != kNumQueues; ++q) {
    if (!active[q])
      continue;
    int64_t &left = latencyLeft[q] > 0 ? latencyLeft[q] : workLeft[q];
    left = std::max<int64_t>(0, left - step * rate[q]);
    Id start = order[q][begun[q] - 1];
    if (active[0] && rate[0] < kFullRate && step) {
      auto *entry =
          llvm::find_if(slowedBy, [&](auto &e) { return e.first == start; });
      if (entry == slowedBy.end())
        slowedBy.push_back({start, step});
      else
        entry->second += step;
    }
    if (latencyLeft[q] <= 0 && workLeft[q] <= 0) {
      active[q] = false;
      done[start] = true;
      result.spans[start].end = now;
    }
  }
  if (active[0]) {
    workLeft[0] = std::max<int64_t>(0, workLeft[0] - step * rate[0]);
    if (workLeft[0] == 0)
      finishCompute();
  }
}

/// Compute waited from @from to @to for @start: blames what was under way, back
/// along the chain of what each waited for.
void Player::expose(Time from, Time to, Id start) {
  while (to > from && start >= 0) {
    const OpSpan &span = result.spans[start];
    Time begin = std::max(from, span.begin);
    result.exposedBy[start] += to - begin;
    to = begin;
    start = span.blocker;
  }
}

Timeline Player::run() {
  while (true) {
    bool progress = true;
    while (progress) {
      progress = tryCompute();
      for (int q = 1; q != kNumQueues; ++q)
        progress |= tryTransfer(q);
    }
    if (!llvm::is_contained(active, true))
      break;
    advance();
  }
  assert(begun[0] == order[0].size() &&
         "ops depend on earlier ones only, so all have run");
  result.step = now;
  exposeStall();
  for (const TimedOp &op : program.ops)
    if (op.kind == TimedOp::Compute)
      result.compute += op.work;
  result.exposed = result.step - result.compute;
  return std::move(result);
}

Timeline mlir::fsdp::sched::play(const TimedProgram &program) {
  return Player(program).run();
}

//===----------------------------------------------------------------------===//
// Programs
//===----------------------------------------------------------------------===//

TransferKey
mlir::fsdp::sched::makeTransferKey(const StepTransfer &transfer,
                                   llvm::ArrayRef<GroupPlacement> placements) {
  TransferKey key;
  key.kind = transfer.kind;
  key.atomBytes.assign(transfer.atomBytes.begin(), transfer.atomBytes.end());
  if (!transfer.isCopy())
    key.group = placements[transfer.group];
  if (!transfer.isExactSum)
    return key;
  key.partialScales.assign(key.atomBytes.size(), 1);
  for (auto [scale, dtype] : llvm::zip(key.partialScales, transfer.dtypes))
    if (dtype == "bf16" || dtype == "f16")
      scale = 2;
  return key;
}

TimedProgram
mlir::fsdp::sched::addTimes(const StepProgram &program, const CostModel &cost,
                            llvm::ArrayRef<GroupPlacement> placements) {
  TimedProgram result;
  result.cost = &cost;
  std::vector<Time> kernelTimes;
  for (const KernelCost &kernel : program.kernels)
    kernelTimes.push_back(cost.kernel(kernel));
  // By event: its start. By value: what last wrote it.
  std::vector<Id> starts = getEventOps(program).start;
  std::vector<Id> writers(program.values.size(), -1);
  bool keepsOrder = program.isGraph && cost.ordersCollectives();
  Id lastCollective = -1;
  result.ops.reserve(program.ops.size());
  for (auto [i, op] : llvm::enumerate(program.ops)) {
    TimedOp &timed = result.ops.emplace_back();
    if (op.kind == StepOpKind::Wait) {
      timed.kind = TimedOp::Wait;
      timed.start = starts[op.event];
      continue;
    }
    if (op.kind == StepOpKind::Start) {
      timed.kind = TimedOp::Start;
      timed.queue = op.queue;
      if (keepsOrder && !program.transfers[op.transfer].isCopy()) {
        timed.previous = lastCollective;
        lastCollective = i;
      }
      TransferCost time = cost.transfer(
          makeTransferKey(program.transfers[op.transfer], placements));
      timed.cost = {time.latency, time.work, Id(time.link)};
      for (Id event : op.after)
        timed.after.push_back(starts[event]);
      for (const ByteRange &range : op.reads)
        if (Id writer = writers[range.value]; writer >= 0)
          timed.inputs.push_back(writer);
    } else {
      if (op.kernel >= 0)
        timed.work = kernelTimes[op.kernel];
      if (op.copiedBytes) {
        KernelCost copy;
        copy.kind = KernelKind::Copy;
        copy.bytes = op.copiedBytes;
        copy.name = op.name;
        timed.work += cost.kernel(copy);
      }
    }
    for (const ByteRange &range : op.writes)
      writers[range.value] = i;
  }
  return result;
}

int64_t MemoryPoint::getTotal() const {
  return std::accumulate(bytes.begin(), bytes.end(), int64_t(0));
}

/// Of the host's memory or the device's.
static std::vector<MemoryPoint>
getMemoryOf(const StepProgram &program, const Timeline &timeline, bool isHost) {
  struct Life {
    Time begin = -1, end = -1;
  };
  std::vector<Life> lives(program.buffers.size());
  for (auto [i, op] : llvm::enumerate(program.ops)) {
    const OpSpan &span = timeline.spans[i];
    for (const ByteRange &range : op.writes) {
      Life &life = lives[program.values[range.value].buffer];
      if (life.begin < 0)
        life.begin = span.begin;
      life.begin = std::min(life.begin, span.begin);
    }
    for (const ByteRange &range :
         llvm::concat<const ByteRange>(op.reads, op.writes)) {
      Life &life = lives[program.values[range.value].buffer];
      life.end = std::max(life.end, span.end);
    }
  }
  struct Change {
    Time time;
    unsigned purpose;
    int64_t bytes;
  };
  std::vector<Change> changes;
  auto add = [&](Time begin, Time end, const StepBuffer &buffer) {
    if (buffer.isHost != isHost || begin < 0 || begin >= end)
      return;
    changes.push_back({begin, unsigned(buffer.purpose), buffer.bytes});
    changes.push_back({end, unsigned(buffer.purpose), -buffer.bytes});
  };
  for (const StepBuffer &state : program.idleStates)
    add(0, timeline.step, state);
  if (program.workspace.bytes != 0)
    add(0, timeline.step, program.workspace);
  for (auto [life, buffer] : llvm::zip(lives, program.buffers)) {
    Time begin = buffer.isArgument ? 0 : life.begin;
    Time end = buffer.isArgument || buffer.isResult ? timeline.step : life.end;
    add(begin, end, buffer);
  }
  llvm::sort(changes, [](const Change &a, const Change &b) {
    return std::tie(a.time, a.purpose, a.bytes) <
           std::tie(b.time, b.purpose, b.bytes);
  });
  std::vector<MemoryPoint> points;
  MemoryPoint now;
  for (size_t i = 0; i != changes.size();) {
    now.time = changes[i].time;
    for (; i != changes.size() && changes[i].time == now.time; ++i)
      now.bytes[changes[i].purpose] += changes[i].bytes;
    points.push_back(now);
  }
  return points;
}

std::vector<MemoryPoint>
mlir::fsdp::sched::getMemory(const StepProgram &program,
                             const Timeline &timeline) {
  return getMemoryOf(program, timeline, /*isHost=*/false);
}

int64_t mlir::fsdp::sched::getHostPeak(const StepProgram &program,
                                       const Timeline &timeline) {
  return getMemoryPeak(getMemoryOf(program, timeline, /*isHost=*/true))
      .getTotal();
}

MemoryPoint
mlir::fsdp::sched::getMemoryPeak(llvm::ArrayRef<MemoryPoint> memory) {
  MemoryPoint peak;
  for (const MemoryPoint &point : memory)
    if (point.getTotal() > peak.getTotal())
      peak = point;
  return peak;
}
