//===- StepSchedule.cpp - From a schedule to a program --------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Schedule/StepSchedule.h"
#include "fsdp/Schedule/Makespan.h"
#include "fsdp/Schedule/StepProblem.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLExtras.h"

#include <algorithm>

using namespace mlir::fsdp;
using namespace mlir::fsdp::sched;
using llvm::SmallVector;

StepProgram mlir::fsdp::sched::applySchedule(const StepProgram &program,
                                             const StepProblem &problem,
                                             const Schedule &schedule) {
  StepProgram result = copyWithoutOps(program);
  std::vector<SmallVector<Id, 2>> data = getPredecessors(problem.problem);
  std::vector<SmallVector<Id, 2>> waits = getWaits(problem.problem, schedule);
  auto getEvent = [&](Id t) { return program.ops[problem.transfers[t]].event; };
  auto addWait = [&](const StepOp &start) {
    StepOp &wait = result.ops.emplace_back();
    wait.kind = StepOpKind::Wait;
    wait.name = "wait";
    wait.event = start.event;
    wait.unit = start.unit;
    wait.backward = start.backward;
  };

  auto issue = schedule.issue.begin();
  for (size_t i = 0; i <= schedule.line.size(); ++i) {
    for (; issue != schedule.issue.end() && size_t(schedule.place[*issue]) == i;
         ++issue) {
      StepOp start = program.ops[problem.transfers[*issue]];
      start.after.clear();
      for (Id a : llvm::concat<const Id>(data[*issue], schedule.after[*issue]))
        if (!llvm::is_contained(start.after, getEvent(a)))
          start.after.push_back(getEvent(a));
      start.heldBy = schedule.placeCause[*issue];
      result.ops.push_back(std::move(start));
    }
    for (Id t : waits[i])
      addWait(program.ops[problem.transfers[t]]);
    if (i == schedule.line.size())
      break;
    LineOp op = schedule.line[i];
    if (op.floating)
      result.ops.push_back(program.ops[problem.floating[op.id]]);
    else
      for (Id kernel : problem.segments[op.id])
        result.ops.push_back(program.ops[kernel]);
  }
  for (Id op : problem.epilogue) {
    result.ops.push_back(program.ops[op]);
    if (program.ops[op].kind == StepOpKind::Start) {
      // All before it has been waited for.
      result.ops.back().after.clear();
      addWait(program.ops[op]);
    }
  }
  return result;
}

//===----------------------------------------------------------------------===//
// Bound
//===----------------------------------------------------------------------===//

/// @problem without what is not kept; of the spine, the first @segments.
static ScheduleProblem restrict(const ScheduleProblem &problem, Id segments,
                                const std::vector<bool> &keepTransfer,
                                const std::vector<bool> &keepFloating) {
  auto renumber = [](const std::vector<bool> &keep) {
    std::vector<Id> number(keep.size(), -1);
    Id next = 0;
    for (auto [i, kept] : llvm::enumerate(keep))
      if (kept)
        number[i] = next++;
    return number;
  };
  std::vector<Id> transfer = renumber(keepTransfer);
  std::vector<Id> floating = renumber(keepFloating);
  auto map = [](auto &ids, const std::vector<Id> &number) {
    llvm::erase_if(ids, [&](Id id) { return number[id] < 0; });
    for (Id &id : ids)
      id = number[id];
  };
  ScheduleProblem result = problem;
  result.spine.resize(segments);
  result.backwardBegin = std::min(result.backwardBegin, segments);
  result.transfers.clear();
  result.floating.clear();
  for (auto [t, old] : llvm::enumerate(problem.transfers))
    if (keepTransfer[t]) {
      result.transfers.push_back(old);
      Transfer &kept = result.transfers.back();
      map(kept.after, transfer);
      kept.lastUse = std::min(kept.lastUse, segments - 1);
    }
  for (auto [f, old] : llvm::enumerate(problem.floating))
    if (keepFloating[f]) {
      FloatingOp &op = result.floating.emplace_back(old);
      map(op.after, transfer);
      map(op.afterFloating, floating);
      if (op.before >= 0)
        op.before = transfer[op.before];
    }
  return result;
}

static Time getBound(const ScheduleProblem &problem) {
  return raiseBound(problem, lowerBound(problem).value,
                    std::numeric_limits<Time>::max());
}

/// The bound of all that op @start of the epilogue needs, as @problem has it,
/// its transfer, and what computes behind it but for copies of the end.
static Time getEpilogueBound(const StepProgram &program,
                             const StepProblem &step,
                             const ScheduleProblem &problem,
                             const TimedProgram &times, Id start) {
  // Ops that it needs, as far as data tells; and that need it.
  std::vector<bool> needed(program.ops.size()), needs(program.ops.size());
  std::vector<Id> maker = getMakers(program);
  for (auto [i, op] : llvm::enumerate(program.ops)) {
    needs[i] = Id(i) == start;
    for (const ByteRange &range : op.reads)
      if (Id from = maker[range.value]; from >= 0 && needs[from])
        needs[i] = true;
  }
  needed[start] = true;
  for (Id i = start; i >= 0; --i)
    if (needed[i])
      for (const ByteRange &range : program.ops[i].reads)
        if (Id from = maker[range.value]; from >= 0)
          needed[from] = true;

  // The spine keeps its order: it is needed up to the last op that is.
  Id segments = 0;
  for (auto [s, ops] : llvm::enumerate(step.segments))
    if (llvm::any_of(ops, [&](Id op) { return needed[op]; }))
      segments = s + 1;
  // The epilogue comes behind all else on its queue.
  auto isBefore = [&](Id t) {
    return needed[step.transfers[t]] ||
           problem.transfers[t].queue == program.ops[start].queue;
  };
  for (auto [t, transfer] : llvm::enumerate(problem.transfers))
    if (isBefore(t))
      segments =
          std::max(segments, std::max(transfer.ready, transfer.lastUse) + 1);
  std::vector<bool> keepTransfer, keepFloating;
  for (auto [t, transfer] : llvm::enumerate(problem.transfers))
    keepTransfer.push_back(isBefore(t) || (transfer.firstUse >= 0 &&
                                           transfer.firstUse < segments));
  for (auto [f, op] : llvm::enumerate(problem.floating))
    keepFloating.push_back(op.before >= 0 ? bool(keepTransfer[op.before])
                                          : needed[step.floating[f]]);
  Time time =
      getBound(restrict(problem, segments, keepTransfer, keepFloating)) +
      times.ops[start].cost.total();
  for (Id op : step.epilogue)
    if (needs[op] && op != start && program.ops[op].replaces < 0)
      time += times.ops[op].work;
  return time;
}

/// The bound of the orders that @step knows.
static Time getBoundOf(const StepProgram &program, const StepProblem &step,
                       const TimedProgram &times) {
  ScheduleProblem problem = step.problem;
  problem.fixedBytes -= step.tailBytes;
  Time bound = getBound(problem);
  for (Id op : step.epilogue)
    if (program.ops[op].kind == StepOpKind::Start)
      bound =
          std::max(bound, getEpilogueBound(program, step, problem, times, op));
  // Copies of the end run when all else is over.
  for (Id op : step.epilogue)
    if (program.ops[op].replaces >= 0)
      bound += times.ops[op].work;
  return bound;
}

Time mlir::fsdp::sched::getStepBound(const StepProgram &program,
                                     const StepProblem &step,
                                     const TimedProgram &times) {
  Time bound = getBoundOf(program, step, times);
  if (!step.isHeld)
    return bound;
  // Reductions that need not wait may come in another order.
  StepProblem freed =
      llvm::cantFail(getStepProblem(program, times, /*holds=*/false));
  freed.problem.budget = step.problem.budget;
  return std::min(bound, getBoundOf(program, freed, times));
}

Time mlir::fsdp::sched::getStepBound(const StepProgram &program,
                                     const StepProblem &step,
                                     const TimedProgram &times,
                                     const StepProgram &ordered,
                                     const TimedProgram &now) {
  // Copies of the end are made anew, under other sources.
  auto getKey = [](const StepOp &op) {
    return std::pair(op.replaces, op.replaces < 0 ? op.source : 0);
  };
  llvm::DenseMap<std::pair<Id, Id>, Time> work;
  for (auto [op, timed] : llvm::zip_equal(ordered.ops, now.ops))
    work[getKey(op)] = timed.work;
  TimedProgram least = times;
  bool isLess = false;
  for (auto [op, timed] : llvm::zip_equal(program.ops, least.ops))
    if (Time other = work.lookup(getKey(op)); other < timed.work) {
      timed.work = other;
      isLess = true;
    }
  if (!isLess)
    return getStepBound(program, step, times);
  StepProblem cheaper = llvm::cantFail(getStepProblem(program, least));
  cheaper.problem.budget = step.problem.budget;
  return getStepBound(program, cheaper, least);
}
