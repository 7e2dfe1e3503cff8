//===- Interpreter.cpp - Every way a small program can run ----------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Interpreter.h"
#include "PlacedProgram.h"

#include <algorithm>
#include <set>

using namespace mlir::fsdp;
using namespace mlir::fsdp::sched;
using sched::test::kGranule;

namespace {

/// What is written right now holds nothing.
constexpr Id kNothing = -2;

/// One granule of memory and the value that is meant to be there.
struct Granule {
  int64_t at;
  Id value;
};

/// What an op touches.
struct Access {
  std::vector<Granule> reads, writes;
};

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
  explicit Interpreter(const StepProgram &program, bool knowsValues = true)
      : p(program), knowsValues(knowsValues) {}
  std::string run();

private:
  bool isHost(const ByteRange &range) const {
    return p.buffers[p.values[range.value].buffer].isHost;
  }
  bool isInside(const ByteRange &range) const {
    return range.offset >= 0 &&
           range.end() <= (isHost(range) ? p.hostBytes : p.arenaBytes);
  }
  Id getValueAt(Id value, int64_t offset) const;
  std::vector<Granule> split(const ByteRange &range) const;
  Access getAccess(const StepOp &op) const;
  bool keepsContract(const StepOp &op);
  bool fail(std::string text) {
    fault = std::move(text);
    return false;
  }
  std::vector<Id> running(const State &state) const;
  bool keepsContract();
  void fill(State &state);
  bool begin(State &state, Id op);
  void end(State &state, Id op);
  bool finish(const State &state);
  bool explore(const State &state);

  const StepProgram &p;
  /// Otherwise only what is touched at once counts, and memory is empty.
  bool knowsValues;
  /// By op.
  std::vector<Access> accesses;
  std::set<State> seen;
  std::string fault;
};

} // namespace

/// Whose byte @offset of @value is: its own, or a part's.
Id Interpreter::getValueAt(Id value, int64_t offset) const {
  for (const ByteRange &part : p.values[value].parts)
    if (offset >= part.offset && offset < part.end())
      return getValueAt(part.value, offset);
  return value;
}

/// The host's memory lies behind the device's.
std::vector<Granule> Interpreter::split(const ByteRange &range) const {
  std::vector<Granule> granules;
  int64_t base = isHost(range) ? p.arenaBytes : 0;
  for (int64_t at = range.offset; at < range.end(); at += kGranule)
    granules.push_back({(base + at) / kGranule, getValueAt(range.value, at)});
  return granules;
}

Access Interpreter::getAccess(const StepOp &op) const {
  Access access;
  for (const ByteRange &range : op.reads)
    for (Granule granule : split(range))
      access.reads.push_back(granule);
  for (const ByteRange &range : op.writes)
    for (Granule granule : split(range)) {
      // Only packs leave alone what is in its place.
      if (op.kind == StepOpKind::Copy && granule.value != range.value)
        continue;
      access.writes.push_back({granule.at, range.value});
    }
  return access;
}

static bool touches(const std::vector<Granule> &a,
                    const std::vector<Granule> &b) {
  for (const Granule &x : a)
    for (const Granule &y : b)
      if (x.at == y.at)
        return true;
  return false;
}

/// An op reads at any time from its begin to its end, and writes so.
bool Interpreter::keepsContract(const StepOp &op) {
  for (const ByteRange &range : op.reads)
    if (!isInside(range))
      return fail("outside");
  for (const ByteRange &range : op.writes)
    if (!isInside(range))
      return fail("outside");
  std::set<int64_t> written;
  for (const Granule &granule : getAccess(op).writes)
    if (!written.insert(granule.at).second)
      return fail("writes one place twice");
  // What a pack writes is not asked for by part: it copies one after the other.
  for (size_t j = 0; j != op.writes.size(); ++j) {
    StepOp one = op;
    one.writes = {op.writes[j]};
    for (size_t i = 0; i != op.reads.size(); ++i) {
      one.reads = {op.reads[i]};
      bool isInPlace = op.kind != StepOpKind::Copy &&
                       std::find(op.inPlace.begin(), op.inPlace.end(),
                                 std::pair(Id(i), Id(j))) != op.inPlace.end() &&
                       op.reads[i].offset == op.writes[j].offset &&
                       op.reads[i].bytes == op.writes[j].bytes;
      Access access = getAccess(one);
      if (!isInPlace && touches(access.reads, access.writes))
        return fail("reads and writes overlap");
    }
  }
  return true;
}

/// Rules that hold before anything runs.
bool Interpreter::keepsContract() {
  std::set<Id> started, waited;
  for (const StepOp &op : p.ops) {
    if (!keepsContract(op))
      return false;
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

bool Interpreter::begin(State &state, Id id) {
  const Access &access = accesses[id];
  if (knowsValues)
    for (const Granule &granule : access.reads)
      if (state.memory[granule.at] != granule.value)
        return fail(p.ops[id].name + " reads something else");
  for (Id other : running(state)) {
    if (other == id)
      continue;
    if (touches(access.writes, accesses[other].reads))
      return fail(p.ops[id].name + " writes what " + p.ops[other].name +
                  " reads");
    if (touches(access.writes, accesses[other].writes))
      return fail(p.ops[id].name + " writes what " + p.ops[other].name +
                  " writes");
    if (touches(access.reads, accesses[other].writes))
      return fail(p.ops[id].name + " reads what " + p.ops[other].name +
                  " writes");
  }
  if (knowsValues)
    for (const Granule &granule : access.writes)
      state.memory[granule.at] = kNothing;
  return true;
}

void Interpreter::end(State &state, Id id) {
  if (!knowsValues)
    return;
  for (const Granule &granule : accesses[id].writes)
    state.memory[granule.at] = granule.value;
}

bool Interpreter::finish(const State &state) {
  for (const ByteRange &range : p.results) {
    if (!isInside(range))
      return fail("a result is outside");
    if (!knowsValues)
      continue;
    for (const Granule &granule : split(range))
      if (state.memory[granule.at] != granule.value)
        return fail("a result is not there");
  }
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
  for (const StepOp &op : p.ops)
    accesses.push_back(getAccess(op));
  State state;
  if (knowsValues)
    fill(state);
  explore(state);
  return fault;
}

void Interpreter::fill(State &state) {
  state.memory.assign((p.arenaBytes + p.hostBytes) / kGranule, -1);
  for (size_t id = 0; id != p.values.size(); ++id)
    if (p.values[id].isArgument)
      for (int64_t at = p.values[id].offset;
           at < p.values[id].offset + p.values[id].bytes; at += kGranule)
        state.memory[at / kGranule] = Id(id);
}

std::string sched::test::runEveryWay(const StepProgram &program) {
  return Interpreter(program).run();
}

std::string sched::test::findRace(const StepProgram &program) {
  return Interpreter(program, /*knowsValues=*/false).run();
}
