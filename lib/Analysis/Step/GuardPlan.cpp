//===- GuardPlan.cpp - What a guarded step checks -------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Analysis/Step/GuardPlan.h"
#include "fsdp/Analysis/Contract/InputContract.h"
#include "fsdp/Analysis/Step/ProgramStates.h"
#include "fsdp/Analysis/Step/StepArguments.h"
#include "fsdp/Analysis/Step/StepStructure.h"
#include "fsdp/Arena/ArenaPacking.h"

using namespace mlir;
using namespace mlir::fsdp;
using namespace mlir::fsdp::sched;

namespace {
class GuardPlanner {
public:
  GuardPlanner(const StepProgram &program, ArrayRef<Operation *> origins,
               ProgramOp step)
      : program(program), origins(origins), step(step),
        touches(program.buffers.size()) {}

  GuardPlan plan();

private:
  std::string getLabel(Id op) const;
  GuardedBuffer guard(GuardAction action, Id buffer) const;
  void order();
  void addLife(Id buffer);
  void addEnds();

  const StepProgram &program;
  ArrayRef<Operation *> origins;
  ProgramOp step;
  EventOrder events;
  /// By number in `events`: the op of the program.
  std::vector<Id> ops;
  /// By buffer: what reads or writes it.
  std::vector<SmallVector<int>> touches;
  std::vector<std::string> bufferNames;
  GuardPlan result;
};
} // namespace

std::string GuardPlanner::getLabel(Id op) const {
  return program.ops[op].name + " (op " + std::to_string(op) + ")";
}

/// A collective outside of fsdp.start is a start with its wait in the program,
/// but runs on compute.
void GuardPlanner::order() {
  llvm::DenseMap<Id, int> starts;
  for (auto [op, origin] : llvm::zip(program.ops, origins)) {
    if (op.kind == StepOpKind::Wait) {
      if (!isa<WaitOp>(origin))
        continue;
      events.addWait(starts.lookup(op.event));
    } else if (isa<StartOp>(origin)) {
      SmallVector<int> after;
      for (Id event : op.after)
        after.push_back(starts.lookup(event));
      starts[op.event] = events.addStart(op.queue, after);
    } else {
      events.addCompute();
    }
    Id id = &op - program.ops.data();
    ops.push_back(id);
    auto touch = [&](const ByteRange &range) {
      touches[program.values[range.value].buffer].push_back(ops.size() - 1);
    };
    llvm::for_each(op.reads, touch);
    for (auto [i, range] : llvm::enumerate(op.writes)) {
      touch(range);
      std::string &name = bufferNames[program.values[range.value].buffer];
      if (name.empty())
        name = "result " + std::to_string(i) + " of " + getLabel(id);
    }
  }
}

/// What lies behind @buffer reaches to the end of its border.
GuardedBuffer GuardPlanner::guard(GuardAction action, Id buffer) const {
  const StepBuffer &place = program.buffers[buffer];
  int64_t end = place.offset + place.bytes;
  int64_t border = llvm::alignTo(end, kArenaAlignment) + kGuardBorder - end;
  return {action, bufferNames[buffer], place.offset, place.bytes,
          border, place.isHost};
}

void GuardPlanner::addLife(Id buffer) {
  ArenaBuffer life = getLife(events, touches[buffer]);
  auto addTo = [&](llvm::DenseMap<Operation *, GuardPlan::Buffers> &place,
                   Operation *op, int number, GuardAction action) {
    place[op].push_back(guard(action, buffer));
    result.names[op] = getLabel(ops[number]);
  };
  Operation *first = origins[ops[life.begin]];
  addTo(result.before, first, life.begin, GuardAction::Begin);
  if (program.buffers[buffer].isResult)
    return;
  Operation *last = origins[ops[life.end]];
  if (isa<StartOp>(last))
    return addTo(result.before, last, life.end, GuardAction::End);
  // Transfers that are issued together are one op of the program.
  if (auto transfer = dyn_cast<TransferOpInterface>(last))
    last = getGroupFrom(transfer).back();
  addTo(result.behind, last, life.end, GuardAction::End);
}

/// What the step takes stays; all else is dead when it begins and, but for
/// results, when it ends. The workspace holds whatever calls leave there.
void GuardPlanner::addEnds() {
  ArenaAttr arena = step.getArenaAttr();
  int64_t base = arena.getState() + arena.getInputs();
  int64_t top = arena.getWorkspaceOffset();
  result.atEntry.push_back({GuardAction::Fill,
                            "all but state, inputs and the workspace", base,
                            top - base, 0});
  int64_t hostState =
      getHostStateBytes(step->getParentOfType<ModuleOp>(), arena.getBorder());
  if (program.hostBytes > hostState) {
    auto guardHost = [&](GuardAction action, const Twine &name) {
      return GuardedBuffer{action,
                           name.str(),
                           hostState,
                           program.hostBytes - hostState,
                           0,
                           /*isHost=*/true};
    };
    result.atEntry.push_back(
        guardHost(GuardAction::Fill, "all but state in the host's memory"));
    result.atExit.push_back(
        guardHost(GuardAction::Begin,
                  "what is free in the memory of the host when the step ends"));
  }
  SmallVector<std::pair<int64_t, int64_t>> kept;
  for (auto [id, buffer] : llvm::enumerate(program.buffers)) {
    if (!buffer.isArgument && !buffer.isResult)
      continue;
    GuardedBuffer keep = guard(GuardAction::Keep, id);
    int64_t end = keep.offset + keep.bytes;
    if (buffer.isArgument)
      result.atEntry.push_back({GuardAction::Fill, "the border of " + keep.name,
                                end, keep.border, 0, keep.isHost});
    else
      kept.push_back({keep.offset, end + keep.border});
    result.atExit.push_back(std::move(keep));
  }
  llvm::sort(kept);
  kept.push_back({top, top});
  int64_t at = base;
  for (auto [from, to] : kept) {
    if (from > at)
      result.atExit.push_back({GuardAction::Begin,
                               "what is free when the step ends", at, from - at,
                               0});
    at = std::max(at, to);
  }
}

GuardPlan GuardPlanner::plan() {
  bufferNames.resize(program.buffers.size());
  for (unsigned i = 0; i != step.getNumArguments(); ++i) {
    std::string &name = bufferNames[program.values[i].buffer];
    if (name.empty())
      name = "argument " + std::to_string(i);
  }
  order();
  for (auto [id, buffer] : llvm::enumerate(program.buffers))
    if (!buffer.isArgument)
      addLife(id);
  addEnds();
  return std::move(result);
}

GuardPlan fsdp::planGuards(ProgramOp step, const StepProgram &program,
                           ArrayRef<Operation *> origins) {
  return GuardPlanner(program, origins, step).plan();
}
