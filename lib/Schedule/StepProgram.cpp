//===- StepProgram.cpp - A scheduled step without its IR ------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Schedule/StepProgram.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Twine.h"

#include <algorithm>
#include <numeric>

using namespace mlir::fsdp;
using namespace mlir::fsdp::sched;
using llvm::SmallVector;
using llvm::Twine;

int64_t StepTransfer::getBytes() const {
  return std::accumulate(atomBytes.begin(), atomBytes.end(), int64_t(0));
}

int64_t mlir::fsdp::sched::getHostStateBytes(const StepProgram &program) {
  int64_t bytes = 0;
  for (const StepBuffer &buffer :
       llvm::concat<const StepBuffer>(program.buffers, program.idleStates))
    bytes += buffer.isHost && buffer.isArgument ? buffer.bytes : 0;
  return bytes;
}

int64_t mlir::fsdp::sched::getWorkspaceBytes(const StepProgram &program) {
  int64_t bytes = 0;
  for (const StepOp &op : program.ops)
    bytes = std::max(bytes, op.workspaceBytes);
  return bytes;
}

ByteRange mlir::fsdp::sched::makeKeep(StepProgram &program, Id i, StepOp &op) {
  const auto &replaced = program.replaced[i];
  op.kind = StepOpKind::Copy;
  op.name = "keep";
  op.replaces = i;
  op.reads.push_back(replaced.value);
  // Another value in the argument's place.
  StepValue place = program.values[replaced.argument];
  place.isArgument = false;
  ByteRange range{Id(program.values.size()), place.offset, place.bytes};
  program.values.push_back(place);
  op.copiedBytes = 2 * range.bytes;
  op.writes.push_back(range);
  op.places.push_back(range.offset);
  return range;
}

StepProgram mlir::fsdp::sched::copyWithoutOps(const StepProgram &program) {
  StepProgram copy;
  copy.kernels = program.kernels;
  copy.kernelCode = program.kernelCode;
  copy.transfers = program.transfers;
  copy.groups = program.groups;
  copy.buffers = program.buffers;
  copy.idleStates = program.idleStates;
  copy.workspace = program.workspace;
  copy.values = program.values;
  copy.results = program.results;
  copy.replaced = program.replaced;
  copy.units = program.units;
  copy.unitMembers = program.unitMembers;
  copy.modules = program.modules;
  copy.checkpoints = program.checkpoints;
  copy.worldSize = program.worldSize;
  copy.isStep = program.isStep;
  copy.isGraph = program.isGraph;
  copy.ops.reserve(program.ops.size());
  return copy;
}

std::vector<Id> mlir::fsdp::sched::getMakers(const StepProgram &program) {
  std::vector<Id> maker(program.values.size(), -1);
  for (auto [i, op] : llvm::enumerate(program.ops))
    for (const ByteRange &range : op.writes)
      if (maker[range.value] < 0)
        maker[range.value] = i;
  return maker;
}

EventOps mlir::fsdp::sched::getEventOps(const StepProgram &program) {
  Id events = 0;
  for (const StepOp &op : program.ops)
    events = std::max(events, op.event + 1);
  EventOps result;
  result.start.assign(events, -1);
  result.wait.assign(events, -1);
  for (auto [i, op] : llvm::enumerate(program.ops))
    if (op.event >= 0)
      (op.kind == StepOpKind::Start ? result.start : result.wait)[op.event] = i;
  return result;
}

//===----------------------------------------------------------------------===//
// Rules
//===----------------------------------------------------------------------===//

static bool inRange(Id id, size_t size) { return id >= 0 && size_t(id) < size; }

/// Only what d2h writes and h2d reads lies in the host's memory.
static bool isHostRange(const StepOp &op, bool isWritten) {
  return op.queue == (isWritten ? Queue::D2H : Queue::H2D);
}

static std::string checkOp(const StepProgram &p, const StepOp &op) {
  bool isStart = op.kind == StepOpKind::Start;
  bool isWait = op.kind == StepOpKind::Wait;
  if (isStart == (op.queue == Queue::Compute))
    return "expected starts, and nothing else, away from compute";
  if ((isStart || isWait) != (op.event >= 0))
    return "expected an event on starts and waits only";
  if (isStart != (op.transfer >= 0) ||
      (isStart && !inRange(op.transfer, p.transfers.size())))
    return "expected a transfer on starts only";
  if (isStart && !runsOn(p.transfers[op.transfer].kind, op.queue))
    return ("expected a queue of " +
            kTransferKindNames[unsigned(p.transfers[op.transfer].kind)] +
            ", got " + kQueueNames[unsigned(op.queue)])
        .str();
  if ((op.kind == StepOpKind::Launch) != (op.kernel >= 0) ||
      (op.kernel >= 0 && !inRange(op.kernel, p.kernels.size())))
    return "expected a kernel on launches only";
  if (!isStart && !op.after.empty())
    return "expected events to come after on starts only";
  if (op.unit < -1 || op.unit >= Id(p.units.size()))
    return ("expected a unit below " + Twine(p.units.size()) + ", got " +
            Twine(op.unit))
        .str();
  for (bool isWritten : {false, true})
    for (const ByteRange &range : isWritten
                                      ? llvm::ArrayRef<ByteRange>(op.writes)
                                      : llvm::ArrayRef<ByteRange>(op.reads)) {
      if (!inRange(range.value, p.values.size()))
        return ("expected a value, got " + Twine(range.value)).str();
      const StepValue &value = p.values[range.value];
      if (range.bytes < 0 || range.offset < value.offset ||
          range.end() > value.offset + value.bytes)
        return ("expected bytes inside of value " + Twine(range.value)).str();
      bool isHost = p.buffers[value.buffer].isHost;
      if (isHost != isHostRange(op, isWritten))
        return ("value " + Twine(range.value) + ": expected it in the " +
                (isHost ? "device" : "host") + "'s memory")
            .str();
    }
  return "";
}

std::string mlir::fsdp::sched::checkProgram(const StepProgram &p) {
  for (auto [i, value] : llvm::enumerate(p.values)) {
    if (!inRange(value.buffer, p.buffers.size()))
      return ("value " + Twine(i) + ": expected a buffer, got " +
              Twine(value.buffer))
          .str();
    const StepBuffer &buffer = p.buffers[value.buffer];
    if (value.bytes < 0 || value.offset < buffer.offset ||
        value.offset + value.bytes > buffer.offset + buffer.bytes)
      return ("value " + Twine(i) + ": expected it inside of buffer " +
              Twine(value.buffer))
          .str();
  }
  for (auto [i, value] : llvm::enumerate(p.values)) {
    int64_t at = value.offset;
    for (const ByteRange &part : value.parts) {
      if (!inRange(part.value, p.values.size()) || part.value == Id(i) ||
          !p.values[part.value].parts.empty() || part.bytes < 0 ||
          part.offset < at || part.end() > value.offset + value.bytes)
        return ("value " + Twine(i) +
                ": expected parts of other values without parts inside of it, "
                "by offset and apart")
            .str();
      at = part.end();
    }
  }
  for (auto [i, transfer] : llvm::enumerate(p.transfers)) {
    bool fits = transfer.isCopy() ? transfer.group == -1
                                  : inRange(transfer.group, p.groups.size());
    if (!fits)
      return ("transfer " + Twine(i) + ": expected " +
              (transfer.isCopy() ? "no group of a copy"
                                 : "a group of a collective") +
              ", got " + Twine(transfer.group))
          .str();
  }
  // 0: unknown, 1: started, 2: waited for.
  std::vector<char> state(p.ops.size());
  auto getState = [&](Id event) -> char * {
    return inRange(event, state.size()) ? &state[event] : nullptr;
  };
  for (auto [i, op] : llvm::enumerate(p.ops)) {
    auto fail = [&, i = i](const Twine &what) {
      return ("op " + Twine(i) + ": " + what).str();
    };
    if (std::string error = checkOp(p, op); !error.empty())
      return fail(error);
    for (Id event : op.after)
      if (!getState(event) || !*getState(event))
        return fail("expected event " + Twine(event) + " started before it");
    if (op.event < 0)
      continue;
    char expected = op.kind == StepOpKind::Start ? 0 : 1;
    if (!getState(op.event) || *getState(op.event) != expected)
      return fail(expected
                      ? "expected event " + Twine(op.event) +
                            " started before it and waited for once"
                      : "expected an event of its own, got " + Twine(op.event));
    ++*getState(op.event);
  }
  for (auto [event, s] : llvm::enumerate(state))
    if (s == 1)
      return ("event " + Twine(event) + ": expected a wait").str();
  return "";
}

//===----------------------------------------------------------------------===//
// Dependencies
//===----------------------------------------------------------------------===//

namespace {
/// How many ops of each queue are known to be done.
using Clock = std::array<Id, kNumQueues>;

struct OrderedOps {
  /// By source: place in its queue, and what is done when it begins.
  std::vector<Id> index;
  std::vector<Queue> queue;
  std::vector<Clock> begin;

  explicit OrderedOps(const StepProgram &program, size_t sources);
  bool isBefore(Id a, Id b) const {
    return begin[b][unsigned(queue[a])] > index[a];
  }
};
} // namespace

static void join(Clock &clock, const Clock &other) {
  for (unsigned q = 0; q != kNumQueues; ++q)
    clock[q] = std::max(clock[q], other[q]);
}

OrderedOps::OrderedOps(const StepProgram &program, size_t sources)
    : index(sources, -1), queue(sources), begin(sources) {
  Clock compute = {};
  // What is done when the last op of a queue is.
  std::array<Clock, kNumQueues> last = {};
  std::vector<Clock> done(getEventOps(program).start.size());
  for (const StepOp &op : program.ops) {
    if (op.kind == StepOpKind::Wait) {
      join(compute, done[op.event]);
      continue;
    }
    unsigned q = unsigned(op.queue);
    Clock &here = op.kind == StepOpKind::Start ? last[q] : compute;
    if (op.kind == StepOpKind::Start) {
      join(here, compute);
      for (Id event : op.after)
        join(here, done[event]);
    }
    begin[op.source] = here;
    index[op.source] = here[q];
    queue[op.source] = op.queue;
    ++here[q];
    if (op.kind == StepOpKind::Start)
      done[op.event] = here;
  }
}

std::string
mlir::fsdp::sched::findBrokenDependency(const StepProgram &original,
                                        const StepProgram &changed) {
  struct Access {
    Id op;
    ByteRange range;
    bool writes;
  };
  size_t sources = 0;
  for (const StepOp &op : original.ops)
    sources = std::max<size_t>(sources, op.source + 1);
  OrderedOps ordered(changed, sources);
  std::vector<std::vector<Access>> accesses(original.buffers.size());
  std::vector<const StepOp *> bySource(sources);
  for (const StepOp &op : original.ops) {
    if (op.kind == StepOpKind::Wait)
      continue;
    bySource[op.source] = &op;
    if (ordered.index[op.source] < 0)
      return "expected '" + op.name + "' in the program";
    for (const ByteRange &range : op.reads)
      accesses[original.values[range.value].buffer].push_back(
          {op.source, range, false});
    for (const ByteRange &range : op.writes)
      accesses[original.values[range.value].buffer].push_back(
          {op.source, range, true});
  }
  for (const std::vector<Access> &list : accesses)
    for (size_t j = 0; j != list.size(); ++j)
      for (size_t i = 0; i != j; ++i) {
        const Access &a = list[i], &b = list[j];
        if (a.op == b.op || !(a.writes || b.writes) ||
            !a.range.overlaps(b.range))
          continue;
        if (!ordered.isBefore(a.op, b.op))
          return ("expected '" + bySource[a.op]->name + "' (op " + Twine(a.op) +
                  ") before '" + bySource[b.op]->name + "' (op " + Twine(b.op) +
                  ")")
              .str();
      }
  return "";
}
