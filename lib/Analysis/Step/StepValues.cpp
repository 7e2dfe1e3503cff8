//===- StepValues.cpp - Where values lie, and what shares bytes -----------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Numbers the values of a step and joins those that share bytes into buffers:
// by the places in the IR, or by places of its own, in which no two values
// meet.
//
//===----------------------------------------------------------------------===//

#include "StepValues.h"
#include "fsdp/Analysis/Contract/TensorSizes.h"
#include "fsdp/Analysis/Step/PlacedStep.h"
#include "fsdp/Analysis/Step/StepArguments.h"
#include "fsdp/Analysis/Step/StepStructure.h"
#include "fsdp/Arena/ArenaPacking.h"
#include "fsdp/Dialect/FSDP/IR/FSDP.h"

using namespace mlir;
using namespace mlir::fsdp;
using namespace mlir::fsdp::sched;

StepValues::StepValues(ProgramOp step, const ProgramStates &states,
                       bool isPlaced)
    : step(step), states(states), isPlaced(isPlaced) {
  if (!isPlaced)
    addPlaces();
}

int64_t StepValues::getOffset(Value value) const {
  return isPlaced ? getArenaOffset(value) : offsets.lookup(value);
}

ByteRange StepValues::getRange(Value value) const {
  return {lookup(getWholeValue(value)), getOffset(value),
          getTensorBytes(value.getType())};
}

/// Places for a step that has none: each value after the one before it, and
/// what gives bytes another name where they are.
void StepValues::addPlaces() {
  int64_t next = 0;
  auto add = [&](Value value) {
    offsets[value] = next;
    next += getPlaceBytes(getTensorBytes(value.getType()));
  };
  auto alias = [&](Value value, Value base, int64_t distance) {
    offsets[value] = offsets.lookup(base) + distance;
  };
  for (BlockArgument arg : step.getArguments())
    add(arg);
  for (Operation &op : step.getBody().front()) {
    if (auto start = dyn_cast<StartOp>(op)) {
      for (BlockArgument arg : start.getBody().getArguments())
        alias(arg, start.getSource(arg), 0);
      for (Operation &transfer : start.getTransfers())
        add(transfer.getResult(0));
    } else if (auto wait = dyn_cast<WaitOp>(op)) {
      auto start = wait.getToken().getDefiningOp<StartOp>();
      for (auto [result, value] :
           llvm::zip_equal(wait.getResults(), start.getYielded()))
        alias(result, value, 0);
    } else if (auto view = dyn_cast<ViewOp>(op)) {
      alias(view.getResult(), view.getSource(),
            view.getOffset() *
                llvm::divideCeil(view.getType().getElementTypeBitWidth(), 8));
    } else if (isView(&op)) {
      alias(op.getResult(0), op.getOperand(0), 0);
    } else {
      for (Value result : op.getResults())
        add(result);
    }
  }
}

void StepValues::addValues(StepProgram &program) {
  auto add = [&](Value value) {
    Id id = order.size();
    ids[value] = id;
    order.push_back(value);
    classes.insert(id);
    program.values.push_back(
        {-1, getOffset(value), getTensorBytes(value.getType())});
  };
  for (BlockArgument arg : step.getArguments())
    add(arg);
  // What a wait gives is what its start's collectives brought.
  step.walk([&](Operation *op) {
    if (op != step && !isView(op) && !isa<StartOp, WaitOp>(op))
      for (Value result : op->getResults())
        add(result);
  });
}

/// Values that the plan put into one place although both are needed at once are
/// one buffer: results over tied inputs, parts inside of a pack, a reduction
/// over its input, a new state over the old one.
void StepValues::joinValues() {
  auto join = [&](Value a, Value b) {
    classes.unionSets(lookup(getWholeValue(a)), lookup(getWholeValue(b)));
  };
  auto joinIfEqual = [&](Value a, Value b) {
    if (getOffset(a) == getOffset(b))
      join(a, b);
  };
  step.walk([&](Operation *op) {
    if (auto launch = dyn_cast<LaunchOp>(op)) {
      for (OpResult result : op->getResults())
        if (int64_t tied = launch.getTiedInput(result.getResultNumber());
            tied >= 0)
          joinIfEqual(result, launch.getInputs()[tied]);
    } else if (auto pack = dyn_cast<PackOp>(op)) {
      int64_t bytes =
          llvm::divideCeil(pack.getType().getElementTypeBitWidth(), 8);
      for (auto [part, offset] : llvm::zip(pack.getParts(), pack.getOffsets()))
        if (getOffset(part) == getOffset(pack.getResult()) + offset * bytes)
          join(part, pack.getResult());
    } else if (auto reduce = dyn_cast<AllReduceOp>(op)) {
      joinIfEqual(reduce.getInput(), reduce.getResult());
    }
  });
  for (auto [result, arg] : getReplacedArguments(step))
    joinIfEqual(step.getReturn()->getOperand(result), arg);
}

/// Extends @buffer by @value, and says what both are.
void StepValues::describe(Value value, StepValue &place,
                          StepBuffer &buffer) const {
  buffer.isHost = isa<HostType>(value.getType());
  int64_t end =
      std::max(buffer.offset + buffer.bytes, place.offset + place.bytes);
  buffer.offset = std::min(buffer.offset, place.offset);
  buffer.bytes = end - buffer.offset;
  if (auto arg = dyn_cast<BlockArgument>(value)) {
    buffer.isArgument = place.isArgument = true;
    buffer.purpose = Purpose::Other;
    if (StateOp state = states.getRead(arg.getArgNumber())) {
      buffer.purpose = getPurpose(state.getKind());
      if (state.getOffset())
        buffer.stateOffset = *state.getOffset();
    }
  } else if (!buffer.isArgument) {
    Operation *maker = value.getDefiningOp();
    if (isa<AllGatherOp>(maker))
      buffer.purpose = Purpose::Gathered;
    else if (isa<CollectiveOpInterface, PackOp>(maker))
      buffer.purpose = Purpose::Gradients;
  }
}

void StepValues::addBuffers(StepProgram &program) {
  llvm::DenseMap<Id, Id> bufferOf;
  for (auto [id, value] : llvm::enumerate(order)) {
    auto [it, isNew] = bufferOf.try_emplace(classes.getLeaderValue(id),
                                            program.buffers.size());
    StepValue &place = program.values[id];
    place.buffer = it->second;
    if (isNew)
      program.buffers.push_back({place.offset, place.bytes});
    describe(value, place, program.buffers[it->second]);
  }
  for (Value value : step.getReturn()->getOperands())
    program.buffers[program.values[lookup(getWholeValue(value))].buffer]
        .isResult = true;
}

/// States that have places and belong to other programs alone.
void StepValues::addIdleStates(StepProgram &program) {
  llvm::SmallDenseSet<Operation *> used;
  for (unsigned i = 0, e = step.getNumArguments(); i != e; ++i)
    used.insert(states.getRead(i));
  for (auto state : step->getParentOfType<ModuleOp>().getOps<StateOp>())
    if (state.getOffset() && !used.contains(state)) {
      StepBuffer &idle = program.idleStates.emplace_back();
      idle.bytes = getTensorBytes(state.getType());
      idle.offset = idle.stateOffset = *state.getOffset();
      idle.purpose = getPurpose(state.getKind());
      idle.isArgument = idle.isResult = true;
      idle.isHost = isa<HostType>(state.getType());
    }
}

void StepValues::addTo(StepProgram &program) {
  addValues(program);
  joinValues();
  addBuffers(program);
  addIdleStates(program);
  if (!isPlaced)
    return;
  ArenaAttr arena = step.getArenaAttr();
  program.arenaBytes = arena.getBytes();
  program.hostBytes = arena.getHost();
  program.workspace.offset = arena.getWorkspaceOffset();
  program.workspace.bytes = arena.getWorkspace();
}
