//===- Interpreter.cpp - Every way a small program can run ----------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Interpreter.h"

#include <algorithm>
#include <set>

using namespace mlir::fsdp;
using namespace mlir::fsdp::sched;
using sched::test::kGranule;

namespace {

/// What is written right now holds nothing.
constexpr Id kNothing = -2;

/// All that the future depends on.
struct State {
  /// The next op of compute; whether it has begun.
  Id next = 0;
  bool running = false;
  /// By queue: starts that were handed over and are not over, and whether the
  /// first has begun.
  std::array<std::vector<Id>, kNumQueues> given;
  std::array<bool, kNumQueues> begun = {};
  /// Events that are complete.
  std::set<Id> over;
  std::vector<Id> memory;

  auto key() const {
    return std::tie(next, running, given, begun, over, memory);
  }
  bool operator<(const State &o) const { return key() < o.key(); }
};

class Interpreter {
public:
  explicit Interpreter(const StepProgram &program) : p(program) {}
  std::string run();

private:
  bool isHost(const ByteRange &range) const {
    return p.buffers[p.values[range.value].buffer].isHost;
  }
  bool touches(const ByteRange &a, const ByteRange &b) const {
    return isHost(a) == isHost(b) && a.offset < b.end() && b.offset < a.end();
  }
  /// The host's memory lies behind the device's.
  Id &at(State &state, const ByteRange &range, int64_t offset) const {
    return state
        .memory[((isHost(range) ? p.arenaBytes : 0) + offset) / kGranule];
  }
  bool fail(std::string text) {
    fault = std::move(text);
    return false;
  }
  std::vector<Id> running(const State &state) const;
  bool keepsContract();
  bool begin(State &state, Id op);
  void end(State &state, Id op);
  bool finish(State state);
  bool explore(const State &state);

  const StepProgram &p;
  std::set<State> seen;
  std::string fault;
};

} // namespace

/// Rules that hold before anything runs.
bool Interpreter::keepsContract() {
  std::set<Id> started, waited;
  for (const StepOp &op : p.ops) {
    auto isInside = [&](const ByteRange &range) {
      return range.offset >= 0 &&
             range.end() <= (isHost(range) ? p.hostBytes : p.arenaBytes);
    };
    for (const ByteRange &range : op.reads)
      if (!isInside(range))
        return fail("outside");
    for (const ByteRange &range : op.writes)
      if (!isInside(range))
        return fail("outside");
    if (op.kind == StepOpKind::Start) {
      for (Id event : op.after)
        if (!started.count(event))
          return fail("after what has not started");
      if (!started.insert(op.event).second)
        return fail("started twice");
    }
    if (op.kind == StepOpKind::Wait &&
        (!started.count(op.event) || !waited.insert(op.event).second))
      return fail("waited too early or twice");
    for (size_t i = 0; i != op.reads.size(); ++i)
      for (size_t j = 0; j != op.writes.size(); ++j) {
        const ByteRange &from = op.reads[i], &to = op.writes[j];
        bool isInPlace =
            std::find(op.inPlace.begin(), op.inPlace.end(),
                      std::pair(Id(i), Id(j))) != op.inPlace.end() &&
            from.offset == to.offset && from.bytes == to.bytes;
        if (touches(from, to) && !isInPlace)
          return fail("reads and writes overlap");
      }
  }
  return started == waited || fail("not waited for");
}

std::vector<Id> Interpreter::running(const State &state) const {
  std::vector<Id> ops;
  if (state.running)
    ops.push_back(state.next);
  for (unsigned q = 0; q != kNumQueues; ++q)
    if (state.begun[q])
      ops.push_back(state.given[q].front());
  return ops;
}

/// Reads happen at any time from begin to end, and so do writes.
bool Interpreter::begin(State &state, Id id) {
  const StepOp &op = p.ops[id];
  for (const ByteRange &range : op.reads)
    for (int64_t i = range.offset; i < range.end(); i += kGranule)
      if (at(state, range, i) != range.value)
        return fail(op.name + " reads something else");
  for (Id other : running(state))
    if (other != id)
      for (const ByteRange &to : op.writes) {
        for (const ByteRange &range : p.ops[other].reads)
          if (touches(to, range))
            return fail(op.name + " writes what " + p.ops[other].name +
                        " reads");
        for (const ByteRange &range : p.ops[other].writes)
          if (touches(to, range))
            return fail(op.name + " writes what " + p.ops[other].name +
                        " writes");
      }
  for (const ByteRange &range : op.writes)
    for (int64_t i = range.offset; i < range.end(); i += kGranule)
      at(state, range, i) = kNothing;
  return true;
}

void Interpreter::end(State &state, Id id) {
  for (const ByteRange &range : p.ops[id].writes)
    for (int64_t i = range.offset; i < range.end(); i += kGranule)
      at(state, range, i) = range.value;
}

bool Interpreter::finish(State state) {
  for (const ByteRange &range : p.results)
    for (int64_t i = range.offset; i < range.end(); i += kGranule)
      if (at(state, range, i) != range.value)
        return fail("a result is not there");
  return true;
}

bool Interpreter::explore(const State &state) {
  if (!seen.insert(state).second)
    return true;
  bool moved = false;
  auto go = [&](const State &next) {
    moved = true;
    return explore(next);
  };
  // Compute.
  if (state.next < Id(p.ops.size())) {
    const StepOp &op = p.ops[state.next];
    State next = state;
    if (op.kind == StepOpKind::Start) {
      next.given[unsigned(op.queue)].push_back(next.next++);
      if (!go(next))
        return false;
    } else if (op.kind == StepOpKind::Wait) {
      ++next.next;
      if (state.over.count(op.event) && !go(next))
        return false;
    } else if (!state.running) {
      if (!begin(next, state.next))
        return false;
      next.running = true;
      if (!go(next))
        return false;
    } else {
      end(next, next.next++);
      next.running = false;
      if (!go(next))
        return false;
    }
  }
  // Queues.
  for (unsigned q = 0; q != kNumQueues; ++q) {
    if (state.given[q].empty())
      continue;
    Id id = state.given[q].front();
    const StepOp &op = p.ops[id];
    State next = state;
    if (state.begun[q]) {
      end(next, id);
      next.over.insert(op.event);
      next.begun[q] = false;
      next.given[q].erase(next.given[q].begin());
      if (!go(next))
        return false;
    } else if (std::all_of(op.after.begin(), op.after.end(),
                           [&](Id event) { return state.over.count(event); })) {
      if (!begin(next, id))
        return false;
      next.begun[q] = true;
      if (!go(next))
        return false;
    }
  }
  if (moved)
    return true;
  return state.next == Id(p.ops.size()) ? finish(state) : fail("stuck");
}

std::string Interpreter::run() {
  if (!keepsContract())
    return fault;
  State state;
  state.memory.assign((p.arenaBytes + p.hostBytes) / kGranule, -1);
  for (size_t id = 0; id != p.values.size(); ++id)
    if (p.values[id].isArgument)
      for (int64_t at = p.values[id].offset;
           at < p.values[id].offset + p.values[id].bytes; at += kGranule)
        state.memory[at / kGranule] = Id(id);
  explore(state);
  return fault;
}

std::string sched::test::runEveryWay(const StepProgram &program) {
  return Interpreter(program).run();
}
