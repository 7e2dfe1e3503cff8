//===- VerifyProgram.cpp - Is a placed program right? ---------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Schedule/VerifyProgram.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Twine.h"

#include <algorithm>
#include <limits>
#include <map>

using namespace mlir::fsdp;
using namespace mlir::fsdp::sched;
using llvm::SmallVector;
using llvm::Twine;

namespace {
/// Per queue, how many of its ops are over.
struct Clock {
  std::array<Id, kNumQueues> over = {};
  void join(const Clock &other) {
    for (unsigned q = 0; q != kNumQueues; ++q)
      over[q] = std::max(over[q], other.over[q]);
  }
};

/// An op as others see it: it is over when its queue has done `count` ops.
struct Moment {
  Id op = -1;
  unsigned queue = 0;
  Id count = 0;
  bool isKnownTo(const Clock &clock) const {
    return op < 0 || clock.over[queue] >= count;
  }
};

/// Bytes from their place in the map up to `end`.
struct Cell {
  int64_t end = 0;
  Id value = -1;
  Moment writer;
  /// The last reader of each queue since the write.
  std::array<Moment, kNumQueues> readers;
};

/// By offset: what lies there.
using Memory = std::map<int64_t, Cell>;

class Verifier {
public:
  explicit Verifier(const StepProgram &program)
      : p(program), makers(getMakers(program)) {}
  std::optional<ProgramFault> run();

private:
  enum class EventState { None, Started, Waited };
  struct Event {
    EventState state = EventState::None;
    Id start = -1;
    /// What is known to those who know that it is complete.
    Clock clock;
  };

  bool fail(Id op, const Twine &message, Id other = -1);
  std::string name(Id op) const;
  Event *getEvent(Id event);
  bool begin(Id id, Clock &clock);
  bool check(Id id, const ByteRange &range, const Clock &clock, bool isWrite);
  bool checkWorkspace(Id id);
  bool checkOverlap(Id id, llvm::ArrayRef<ByteRange> writes);
  std::string describe(Id value) const;
  std::string describeBrought(Id start) const;
  SmallVector<ByteRange, 4> expand(const ByteRange &range) const;
  SmallVector<ByteRange, 4> getWrites(const StepOp &op) const;
  void access(const ByteRange &range, Moment moment, bool isWrite);
  bool visit(Id id);
  bool holdsAtEnd();
  bool isHost(const ByteRange &range) const {
    return p.buffers[p.values[range.value].buffer].isHost;
  }

  const StepProgram &p;
  /// By value: the op that writes it.
  std::vector<Id> makers;
  /// The device's arena and the host's.
  std::array<Memory, 2> memories;
  std::vector<Event> events;
  /// Compute's knowledge, and what each queue was given last.
  Clock compute;
  std::array<Clock, kNumQueues> queues;
  std::array<Id, kNumQueues> counts = {};
  std::optional<ProgramFault> fault;
};
} // namespace

bool Verifier::fail(Id op, const Twine &message, Id other) {
  fault = ProgramFault{op, other, message.str()};
  return false;
}

std::string Verifier::name(Id op) const {
  return op < 0 ? "the caller of the step"
                : (p.ops[op].name + " (op " + Twine(op) + ")").str();
}

/// "gradients of k12 (op 40)".
std::string Verifier::describe(Id value) const {
  Id maker = makers[value];
  llvm::StringRef purpose =
      kPurposeNames[unsigned(p.buffers[p.values[value].buffer].purpose)];
  std::string what = (purpose + " (value " + Twine(value) + ")").str();
  if (maker < 0)
    return what + (p.values[value].isArgument ? " of the caller"
                                              : ", which nobody writes");
  what += " of " + name(maker);
  Id unit = p.ops[maker].unit;
  return unit < 0 ? what : what + " for unit " + p.units[unit];
}

/// ", which brings .." of a transfer, by its first result.
std::string Verifier::describeBrought(Id start) const {
  const StepOp &op = p.ops[start];
  return op.writes.empty()
             ? std::string()
             : ", which brings " + describe(op.writes.front().value);
}

Verifier::Event *Verifier::getEvent(Id event) {
  return event >= 0 && size_t(event) < events.size() ? &events[event] : nullptr;
}

/// The cell that begins at @offset.
static Memory::iterator split(Memory &cells, int64_t offset) {
  auto it = cells.lower_bound(offset);
  if (it != cells.end() && it->first == offset)
    return it;
  auto before = std::prev(it);
  Cell rest = before->second;
  before->second.end = offset;
  return cells.emplace_hint(it, offset, rest);
}

/// Whether op @id may touch @range, knowing @clock.
bool Verifier::check(Id id, const ByteRange &range, const Clock &clock,
                     bool isWrite) {
  if (range.bytes == 0)
    return true;
  int64_t size = isHost(range) ? p.hostBytes : p.arenaBytes;
  const char *where = isHost(range) ? " of the host" : "";
  if (range.offset < 0 || range.end() > size)
    return fail(id, Twine("expected bytes inside the arena") + where + " of " +
                        Twine(size) + ", got [" + Twine(range.offset) + ", " +
                        Twine(range.end()) + ")");
  int64_t workspace = p.workspace.offset;
  if (!isHost(range) && p.workspace.bytes != 0 &&
      range.offset < workspace + p.workspace.bytes && workspace < range.end())
    return fail(id, "expected " + name(id) + " to touch bytes apart from the " +
                        "workspace [" + Twine(workspace) + ", " +
                        Twine(workspace + p.workspace.bytes) + "), got [" +
                        Twine(range.offset) + ", " + Twine(range.end()) +
                        ") of " + describe(range.value));
  Memory &cells = memories[isHost(range)];
  for (auto it = split(cells, range.offset); it->first < range.end(); ++it) {
    if (it->second.end > range.end()) {
      split(cells, range.end());
      it = std::prev(cells.lower_bound(range.end()));
    }
    const Cell &cell = it->second;
    auto conflict = [&](const Moment &other, llvm::StringRef verb) {
      return fail(id,
                  "expected " + name(other.op) + " to be over before " +
                      name(id) + (isWrite ? " writes" : " reads") + " bytes [" +
                      Twine(it->first) + ", " + Twine(cell.end) + ")" + where +
                      " of " +
                      (cell.value < 0 ? "nothing" : describe(cell.value)) +
                      " that it " + verb + ", got no event between them",
                  other.op);
    };
    if (!cell.writer.isKnownTo(clock))
      return conflict(cell.writer, "writes");
    if (!isWrite) {
      if (cell.value != range.value)
        return fail(id,
                    "expected " + name(id) + " to read " +
                        describe(range.value) + " in bytes [" +
                        Twine(it->first) + ", " + Twine(cell.end) + ")" +
                        where + ", got " +
                        (cell.value < 0 ? "nothing" : describe(cell.value)),
                    cell.writer.op);
      continue;
    }
    for (const Moment &reader : cell.readers)
      if (!reader.isKnownTo(clock))
        return conflict(reader, "reads");
  }
  return true;
}

/// Launches run one after another, on one queue: then they may share the
/// workspace, in which no value lies.
bool Verifier::checkWorkspace(Id id) {
  const StepOp &op = p.ops[id];
  if (op.workspaceBytes == 0)
    return true;
  if (op.kind != StepOpKind::Launch || op.queue != Queue::Compute)
    return fail(id, "expected launches on the compute queue alone to use the "
                    "workspace, got " +
                        name(id));
  if (op.workspaceBytes <= p.workspace.bytes)
    return true;
  return fail(id, "expected a workspace of at least " +
                      Twine(op.workspaceBytes) + " bytes for " + name(id) +
                      ", got " + Twine(p.workspace.bytes));
}

/// @range as the values that its bytes are: parts of a pack that lie in their
/// place are what they were.
SmallVector<ByteRange, 4> Verifier::expand(const ByteRange &range) const {
  SmallVector<ByteRange, 4> result;
  int64_t at = range.offset;
  for (const ByteRange &part : p.values[range.value].parts) {
    int64_t from = std::max(at, part.offset),
            to = std::min(range.end(), part.end());
    if (from >= to)
      continue;
    if (at < from)
      result.push_back({range.value, at, from - at});
    llvm::append_range(result, expand({part.value, from, to - from}));
    at = to;
  }
  if (at < range.end())
    result.push_back({range.value, at, range.end() - at});
  return result;
}

/// A pack leaves alone what is in its place already; nobody else does.
SmallVector<ByteRange, 4> Verifier::getWrites(const StepOp &op) const {
  SmallVector<ByteRange, 4> result;
  if (op.kind != StepOpKind::Copy) {
    llvm::append_range(result, op.writes);
    return result;
  }
  for (const ByteRange &range : op.writes)
    for (const ByteRange &piece : expand(range))
      if (piece.value == range.value)
        result.push_back(piece);
  return result;
}

/// What an op reads and writes lies apart, or the one is what the other goes
/// over; and its results lie apart, even those that nobody reads. A pack copies
/// its parts one after the other, and writes nothing where one lies in its
/// place.
bool Verifier::checkOverlap(Id id, llvm::ArrayRef<ByteRange> writes) {
  const StepOp &op = p.ops[id];
  auto areInPlace = [&](size_t read, size_t write) {
    return llvm::is_contained(op.inPlace,
                              std::make_pair(Id(read), Id(write))) &&
           op.reads[read].offset == op.writes[write].offset &&
           op.reads[read].bytes == op.writes[write].bytes;
  };
  auto areApart = [&](const ByteRange &a, const ByteRange &b) {
    return isHost(a) != isHost(b) || a.bytes == 0 || b.bytes == 0 ||
           a.offset >= b.end() || b.offset >= a.end();
  };
  bool isCopy = op.kind == StepOpKind::Copy;
  for (auto [j, to] : llvm::enumerate(writes))
    for (const ByteRange &other : writes.take_front(j))
      if (!areApart(other, to))
        return fail(id, "expected " + name(id) +
                            " to write each result apart, got bytes [" +
                            Twine(other.offset) + ", " + Twine(other.end()) +
                            ") of " + describe(other.value) + " and [" +
                            Twine(to.offset) + ", " + Twine(to.end()) +
                            ") of " + describe(to.value));
  for (auto [i, from] : llvm::enumerate(op.reads))
    for (auto [j, to] : llvm::enumerate(writes)) {
      if (areApart(from, to) || (!isCopy && areInPlace(i, j)))
        continue;
      bool mayBe = !isCopy && llvm::any_of(op.inPlace, [&, j = j](auto pair) {
        return pair.second == Id(j);
      });
      return fail(id, "expected " + name(id) + " to read and write apart" +
                          (mayBe ? " or in place" : "") + ", got bytes [" +
                          Twine(from.offset) + ", " + Twine(from.end()) +
                          ") of " + describe(from.value) + " and [" +
                          Twine(to.offset) + ", " + Twine(to.end()) + ") of " +
                          describe(to.value));
    }
  return true;
}

void Verifier::access(const ByteRange &range, Moment moment, bool isWrite) {
  if (range.bytes == 0)
    return;
  Memory &cells = memories[isHost(range)];
  auto first = split(cells, range.offset), last = split(cells, range.end());
  if (!isWrite) {
    for (auto it = first; it != last; ++it)
      it->second.readers[moment.queue] = moment;
    return;
  }
  // One cell, however many there were.
  cells.erase(std::next(first), last);
  first->second = Cell{range.end(), range.value, moment, {}};
}

/// What @id knows when it begins, in @clock.
bool Verifier::begin(Id id, Clock &clock) {
  const StepOp &op = p.ops[id];
  clock = compute;
  if (op.kind != StepOpKind::Start)
    return true;
  unsigned queue = unsigned(op.queue);
  if (queue == 0 || queue >= kNumQueues)
    return fail(id, "expected a transfer on a queue of its own");
  clock.join(queues[queue]);
  for (Id after : op.after) {
    Event *event = getEvent(after);
    if (!event || event->state == EventState::None)
      return fail(id, "expected event " + Twine(after) +
                          " to be started before " + name(id) +
                          " comes after it");
    clock.join(event->clock);
  }
  return true;
}

bool Verifier::visit(Id id) {
  const StepOp &op = p.ops[id];
  if (op.kind == StepOpKind::Wait) {
    Event *event = getEvent(op.event);
    if (!event || event->state == EventState::None)
      return fail(id, "expected event " + Twine(op.event) +
                          " to be started before it is waited for");
    if (event->state == EventState::Waited)
      return fail(id,
                  "expected one wait for event " + Twine(op.event) +
                      describeBrought(event->start) + ", got a second",
                  event->start);
    event->state = EventState::Waited;
    compute.join(event->clock);
    return true;
  }

  Clock clock;
  SmallVector<ByteRange, 4> reads, writes = getWrites(op);
  if (!begin(id, clock) || !checkOverlap(id, writes) || !checkWorkspace(id))
    return false;
  unsigned queue = unsigned(op.queue);
  for (const ByteRange &range : op.reads)
    llvm::append_range(reads, expand(range));
  for (const ByteRange &range : reads)
    if (!check(id, range, clock, /*isWrite=*/false))
      return false;
  for (const ByteRange &range : writes)
    if (!check(id, range, clock, /*isWrite=*/true))
      return false;
  Moment moment{id, queue, ++counts[queue]};
  for (const ByteRange &range : reads)
    access(range, moment, /*isWrite=*/false);
  for (const ByteRange &range : writes)
    access(range, moment, /*isWrite=*/true);
  clock.over[queue] = moment.count;
  if (op.kind != StepOpKind::Start) {
    compute = clock;
    return true;
  }
  queues[queue] = clock;
  if (op.event < 0 || size_t(op.event) >= p.ops.size())
    return fail(id, "expected an event from 0 to " + Twine(p.ops.size()) +
                        ", got " + Twine(op.event));
  if (size_t(op.event) >= events.size())
    events.resize(op.event + 1);
  Event &event = events[op.event];
  if (event.state != EventState::None)
    return fail(
        id,
        "expected event " + Twine(op.event) + describeBrought(event.start) +
            ", to be started once, got a second start" + describeBrought(id),
        event.start);
  event = {EventState::Started, id, clock};
  return true;
}

/// What the next step and the caller find: each result's value in its place.
bool Verifier::holdsAtEnd() {
  for (const ByteRange &result : p.results)
    for (const ByteRange &range : expand(result))
      if (!check(Id(p.ops.size()) - 1, range, compute, /*isWrite=*/false)) {
        fault->message = "behind the last op: " + fault->message;
        return false;
      }
  return true;
}

std::optional<ProgramFault> Verifier::run() {
  constexpr int64_t everything = std::numeric_limits<int64_t>::max();
  for (Memory &cells : memories)
    cells[0] = Cell{everything, -1, {}, {}};
  for (auto [id, value] : llvm::enumerate(p.values))
    if (p.buffers[value.buffer].isArgument && value.isArgument)
      access({Id(id), value.offset, value.bytes}, Moment(), /*isWrite=*/true);
  for (Id id = 0, e = p.ops.size(); id != e; ++id)
    if (!visit(id))
      return fault;
  for (auto [number, event] : llvm::enumerate(events))
    if (event.state == EventState::Started) {
      fail(event.start, "expected a wait for event " + Twine(number) + " of " +
                            name(event.start) + ", got none");
      return fault;
    }
  holdsAtEnd();
  return fault;
}

std::optional<ProgramFault>
mlir::fsdp::sched::verifyProgram(const StepProgram &program) {
  return Verifier(program).run();
}
