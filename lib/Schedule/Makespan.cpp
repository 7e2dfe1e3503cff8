//===- Makespan.cpp - What a schedule takes -------------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Schedule/Makespan.h"
#include "fsdp/Schedule/Timeline.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>

using namespace mlir::fsdp;
using namespace mlir::fsdp::sched;
using llvm::SmallVector;

namespace {
/// Where each op stands on the line.
struct Places {
  std::vector<Id> segment, floating;

  Places(const ScheduleProblem &problem, const Schedule &schedule)
      : segment(problem.spine.size()), floating(problem.floating.size()) {
    for (auto [i, op] : llvm::enumerate(schedule.line))
      (op.floating ? floating : segment)[op.id] = i;
  }
};
} // namespace

std::vector<SmallVector<Id, 2>>
mlir::fsdp::sched::getWaits(const ScheduleProblem &problem,
                            const Schedule &schedule) {
  Places places(problem, schedule);
  size_t end = schedule.line.size();
  std::vector<Id> first(schedule.known.begin(), schedule.known.end());
  auto need = [&](Id t, Id place) { first[t] = std::min(first[t], place); };
  for (auto [t, transfer] : llvm::enumerate(problem.transfers))
    if (transfer.firstUse >= 0)
      need(t, places.segment[transfer.firstUse]);
  for (auto [f, op] : llvm::enumerate(problem.floating))
    for (Id t : op.after)
      need(t, places.floating[f]);
  std::vector<SmallVector<Id, 2>> waits(end + 1);
  for (auto [t, place] : llvm::enumerate(first))
    waits[place].push_back(t);
  return waits;
}

/// The program that @schedule is; returns its op of each transfer and of each
/// place on the line.
static TimedProgram getProgram(const ScheduleProblem &problem,
                               const Schedule &schedule,
                               std::vector<Id> &startOf,
                               std::vector<Id> &lineOf) {
  TimedProgram program;
  program.cost = problem.cost;
  std::vector<SmallVector<Id, 2>> data = getPredecessors(problem);
  std::vector<SmallVector<Id, 2>> waits = getWaits(problem, schedule);
  Places places(problem, schedule);
  std::vector<SmallVector<Id, 1>> castsOf = getCastsOf(problem);
  startOf.resize(problem.transfers.size());
  auto issue = schedule.issue.begin();
  Id lastCollective = -1;
  for (size_t i = 0; i <= schedule.line.size(); ++i) {
    for (; issue != schedule.issue.end() && size_t(schedule.place[*issue]) == i;
         ++issue) {
      Id t = *issue;
      const Transfer &transfer = problem.transfers[t];
      startOf[t] = program.ops.size();
      TimedOp &start = program.ops.emplace_back();
      start.kind = TimedOp::Start;
      start.queue = transfer.queue;
      start.cost = transfer.cost;
      bool isCopy =
          transfer.queue == Queue::D2H || transfer.queue == Queue::H2D;
      if (problem.ordersCollectives && !isCopy)
        start.previous = std::exchange(lastCollective, startOf[t]);
      if (transfer.ready >= 0)
        start.inputs.push_back(lineOf[places.segment[transfer.ready]]);
      for (Id f : castsOf[t])
        start.inputs.push_back(lineOf[places.floating[f]]);
      for (Id a : data[t]) {
        start.inputs.push_back(startOf[a]);
        start.after.push_back(startOf[a]);
      }
      for (Id a : schedule.after[t])
        start.after.push_back(startOf[a]);
    }
    for (Id t : waits[i]) {
      TimedOp &wait = program.ops.emplace_back();
      wait.kind = TimedOp::Wait;
      wait.start = startOf[t];
    }
    if (i == schedule.line.size())
      break;
    LineOp op = schedule.line[i];
    lineOf.push_back(program.ops.size());
    program.ops.emplace_back().work =
        op.floating ? problem.floating[op.id].work : problem.spine[op.id].work;
  }
  return program;
}

/// Bytes over time.
static void addMemory(const ScheduleProblem &problem, const Schedule &schedule,
                      Simulation &result) {
  Places places(problem, schedule);
  std::vector<SmallVector<Id, 1>> castsOf = getCastsOf(problem);
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
    const Span &span = result.compute[places.segment[s]];
    add(span.begin, span.end, problem.spine[s].live);
    if (s)
      add(result.compute[places.segment[s - 1]].end, span.begin,
          getBorderBytes(problem, s));
  }
  for (auto [t, transfer] : llvm::enumerate(problem.transfers)) {
    const Span &span = result.transfers[t];
    Time end = result.step;
    if (transfer.lastUse >= 0)
      end = result.compute[places.segment[transfer.lastUse]].end;
    else if (lastTail[t] >= 0 && size_t(lastTail[t]) < tails.size())
      end = result.compute[places.floating[tails[lastTail[t]]]].end;
    add(span.begin, end, transfer.dstBytes);
    if (transfer.srcBytes)
      add(result.compute[places.segment[transfer.srcBegin]].begin, span.end,
          transfer.srcBytes);
    for (Id f : castsOf[t])
      add(result.compute[places.floating[f]].begin, span.end,
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

/// In the words of the problem: its transfers and the line.
static Span getSpan(const ScheduleProblem &problem, const Schedule &schedule,
                    const OpSpan &span, Id transfer, Id blocker) {
  Span result{span.begin, span.end, span.alone, span.stall, Cause::None, -1};
  result.blocker = blocker;
  switch (span.why) {
  case Blocker::None:
    // At the begin of the step only data can be had earlier.
    result.cause = transfer >= 0 ? Cause::Data : Cause::None;
    break;
  case Blocker::Input:
  case Blocker::Wait:
    result.cause = Cause::Data;
    break;
  case Blocker::Order:
    result.cause = schedule.placeCause[transfer];
    // That compute waited before is another story.
    result.blocker = -1;
    break;
  case Blocker::Queue:
    result.cause = Cause::QueueBusy;
    break;
  case Blocker::Link:
    result.cause = Cause::LinkBusy;
    break;
  case Blocker::Memory:
    result.cause = Cause::Memory;
    break;
  }
  return result;
}

Simulation mlir::fsdp::sched::simulate(const ScheduleProblem &problem,
                                       const Schedule &schedule) {
  std::vector<Id> startOf, lineOf;
  TimedProgram program = getProgram(problem, schedule, startOf, lineOf);
  Timeline timeline = play(program);
  std::vector<Id> transferOf(program.ops.size(), -1);
  for (auto [t, start] : llvm::enumerate(startOf))
    transferOf[start] = t;

  Simulation result;
  result.step = timeline.step;
  result.exposed = timeline.exposed;
  auto convert = [&](Id op, Id transfer) {
    const OpSpan &span = timeline.spans[op];
    return getSpan(problem, schedule, span, transfer,
                   span.blocker < 0 ? -1 : transferOf[span.blocker]);
  };
  for (Id op : lineOf)
    result.compute.push_back(convert(op, -1));
  for (auto [t, start] : llvm::enumerate(startOf)) {
    result.transfers.push_back(convert(start, t));
    result.exposedBy.push_back(timeline.exposedBy[start]);
  }
  addMemory(problem, schedule, result);
  return result;
}
