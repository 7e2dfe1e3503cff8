//===- ArenaEvents.cpp - What comes before what in a step -----------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The rules of fsdp.start and fsdp.wait as vector clocks. fsdp-verify-schedule
// has its own, so that one can find the other's mistakes.
//
//===----------------------------------------------------------------------===//

#include "fsdp/Arena/ArenaEvents.h"
#include "fsdp/Arena/ArenaPacking.h"

#include <algorithm>
#include <limits>

using namespace mlir;
using namespace mlir::fsdp;

void EventOrder::join(Clock &clock, const Clock &other) {
  for (unsigned q = 0; q != kNumQueues; ++q)
    clock[q] = std::max(clock[q], other[q]);
}

EventOrder::Clock EventOrder::getClock(int op) const {
  Clock clock = ops[op].known;
  clock[ops[op].queue] = ops[op].count;
  return clock;
}

int EventOrder::addCompute() {
  Op &op = ops.emplace_back();
  op.count = ++counts[0];
  op.known = compute;
  op.knownFrom = ops.size();
  compute[0] = op.count;
  return ops.size() - 1;
}

int EventOrder::addStart(Queue queue, llvm::ArrayRef<int> after) {
  unsigned q = unsigned(queue);
  Op op;
  op.queue = q;
  op.count = ++counts[q];
  op.knownFrom = std::numeric_limits<int>::max();
  op.known = compute;
  join(op.known, queues[q]);
  for (int start : after)
    join(op.known, getClock(start));
  op.behind.assign(after.begin(), after.end());
  ops.push_back(std::move(op));
  int start = ops.size() - 1;
  queues[q] = getClock(start);
  pending.push_back(start);
  return start;
}

int EventOrder::addWait(int start) {
  Clock known = getClock(start);
  join(compute, known);
  int wait = addCompute();
  ops[wait].behind.push_back(start);
  // And all that the start came behind: earlier transfers of its queue, those
  // in `after`.
  auto isKnown = [&](int op) {
    if (!isBefore(op, wait))
      return false;
    ops[op].knownFrom = wait;
    return true;
  };
  pending.erase(std::remove_if(pending.begin(), pending.end(), isKnown),
                pending.end());
  return wait;
}

int EventOrder::getJoin(int a, int b) const {
  // A wait is on compute, and comes behind compute's part of the two.
  int join = 0;
  for (int op : {a, b})
    join = std::max(join, isStart(op) ? ops[op].knownFrom : op);
  return std::min(join, size() - 1);
}

ArenaBuffer fsdp::getLife(const EventOrder &events,
                          llvm::ArrayRef<int> touches) {
  ArenaBuffer life;
  life.begin = life.end = touches.front();
  for (int touch : touches) {
    if (touch == life.end || events.isBefore(touch, life.end))
      continue;
    life.end = events.isBefore(life.end, touch)
                   ? touch
                   : events.getJoin(life.end, touch);
  }
  return life;
}
