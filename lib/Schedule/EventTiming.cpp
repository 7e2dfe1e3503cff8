//===- EventTiming.cpp - How long what runs takes -------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "EventTiming.h"

#include <algorithm>

using namespace mlir::fsdp;
using namespace mlir::fsdp::sched;
using namespace mlir::fsdp::sched::events;
using llvm::SmallVector;

/// Picoseconds that @left takes at @speed.
static Time getTime(int64_t left, int speed) {
  return (left + speed - 1) / speed;
}

static int64_t &getNext(Left &left, int s) {
  return left.latency[s] ? left.latency[s] : left.work[s];
}

/// Parts of kFullRate of each transfer under way, beside the queues of @active;
/// without @cost they only share links.
static PerStream<int> getSpeeds(const EventStep &step, const Key &k,
                                const Left &left, const CostModel *cost,
                                QueueMask active) {
  SmallVector<int, 4> sharers(step.p.numLinks, 0);
  for (int s = 0; s != kStreams; ++s)
    if (k.isUnderWay(s) && !left.latency[s])
      ++sharers[step.getLast(k, s).link];
  PerStream<int> speeds = {};
  for (int s = 0; s != kStreams; ++s) {
    if (!k.isUnderWay(s))
      continue;
    speeds[s] = cost ? cost->rate(Queue(s + 1), active) : kFullRate;
    if (!left.latency[s])
      speeds[s] = std::max(1, speeds[s] / sharers[step.getLast(k, s).link]);
  }
  return speeds;
}

/// Lets transfers run until one of them or its latency is over, at most for
/// @most. Returns how long.
static Time run(const EventStep &step, const Key &k, Left &left,
                const CostModel *cost, QueueMask active, Time most) {
  PerStream<int> speeds = getSpeeds(step, k, left, cost, active);
  Time time = most;
  for (int s = 0; s != kStreams; ++s)
    if (k.isUnderWay(s))
      time = std::min(time, getTime(getNext(left, s), speeds[s]));
  for (int s = 0; s != kStreams; ++s)
    if (k.isUnderWay(s)) {
      int64_t &next = getNext(left, s);
      next = std::max<int64_t>(0, next - time * speeds[s]);
    }
  return time;
}

int mlir::fsdp::sched::events::runOn(const EventStep &step, Label &x) {
  const Key &k = x.key;
  Left &left = x.left;
  const CostModel *cost = step.p.cost;
  QueueMask active = QueueMask(k.underWay << 1);
  if (k.running)
    active |= maskOf(Queue::Compute);
  if (!active)
    return kNothing;
  int compute = cost ? cost->rate(Queue::Compute, active) : kFullRate;
  while (true) {
    if (k.running && !left.compute)
      return kCompute;
    for (int s = 0; s != kStreams; ++s)
      if (k.isUnderWay(s) && !getNext(left, s))
        return s;
    Time most = k.running ? getTime(left.compute, compute) : kForever;
    Time time = run(step, k, left, cost, active, most);
    x.now += time;
    if (k.running)
      left.compute = std::max<int64_t>(0, left.compute - time * compute);
  }
}

void mlir::fsdp::sched::events::findEnds(const EventStep &step, Label &x) {
  x.computeEnd = x.key.running ? x.now + getTime(x.left.compute, kFullRate) : 0;
  x.workFrom = x.end = {};
  Key k = x.key;
  Left left = x.left;
  for (int s = 0; s != kStreams; ++s)
    if (k.isUnderWay(s))
      x.workFrom[s] = x.now + getTime(left.latency[s], kFullRate);
  for (Time now = x.now; k.underWay;) {
    now += run(step, k, left, /*cost=*/nullptr, /*active=*/0, kForever);
    for (int s = 0; s != kStreams; ++s)
      if (k.isUnderWay(s) && !getNext(left, s)) {
        x.end[s] = now;
        k.underWay &= ~(1u << s);
      }
  }
}

uint64_t mlir::fsdp::sched::events::hashLeft(const Label &x) {
  return llvm::hash_combine(
      x.tails, x.left.compute,
      llvm::hash_combine_range(x.casts.begin(), x.casts.end()),
      llvm::hash_combine_range(x.left.latency.begin(), x.left.latency.end()),
      llvm::hash_combine_range(x.left.work.begin(), x.left.work.end()));
}
