//===- SharedBuffers.cpp - Which values of a step are one buffer ----------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Arena/SharedBuffers.h"
#include "MoveValues.h"
#include "fsdp/Arena/ArenaPacking.h"
#include "fsdp/Arena/StepArena.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"

#include <limits>

using namespace mlir::fsdp;
using namespace mlir::fsdp::sched;
using llvm::SmallVector;

namespace {
/// A value as a part of a new buffer.
struct Place {
  Id buffer = -1;
  int64_t offset = 0;
};

class Sharing {
public:
  explicit Sharing(StepProgram &program) : program(program) {}
  void run();

private:
  void dropCopies();
  void collectReaders();

  bool isWhole(const ByteRange &range) const;
  bool isReadBehind(Id value, Id op) const;
  bool isPartReadBehind(Id value, Id op) const;
  bool isReadAfterReplacement(Id value, Id buffer) const;
  bool isPlaced(Id value) const { return places[value].buffer >= 0; }
  const ByteRange *getTiedInput(Id value) const;
  Purpose getPurpose(const StepOp &op) const;
  void create(Id value, Purpose purpose);

  void placeArguments();
  void placeParts();
  void placeChains();
  void placeReplacements();
  void placeWrites(Id op);
  void placeRest();

  void move();
  void count(StepOp &op);
  void addCopies();

  StepProgram &program;
  std::vector<Id> maker;
  /// By value: ops that read it, as often as they do; and whether the step
  /// returns it.
  std::vector<SmallVector<Id, 4>> readers;
  std::vector<bool> isReturned;
  /// By op: when it is over for compute; a transfer when it is waited for.
  std::vector<Id> end;
  /// By value: whether it is an argument whose old value no later step needs.
  std::vector<bool> isReplaced;
  std::vector<StepBuffer> buffers;
  /// By buffer: the op that writes a new state over it without being tied to
  /// what is there, or -1.
  std::vector<Id> replacer;
  std::vector<Place> places;
};
} // namespace

//===----------------------------------------------------------------------===//
// What is asked of the step
//===----------------------------------------------------------------------===//

/// Copies of the end are decided anew.
void Sharing::dropCopies() {
  llvm::erase_if(program.ops,
                 [](const StepOp &op) { return op.replaces >= 0; });
  for (const ReplacedArgument &replaced : program.replaced)
    program.results[replaced.result] = replaced.value;
}

void Sharing::collectReaders() {
  maker = getMakers(program);
  EventOps events = getEventOps(program);
  readers.resize(program.values.size());
  for (auto [i, op] : llvm::enumerate(program.ops)) {
    Id wait = op.kind == StepOpKind::Start ? events.wait[op.event] : Id(i);
    end.push_back(wait < 0 ? std::numeric_limits<Id>::max() : wait);
    for (const ByteRange &range : op.reads)
      readers[range.value].push_back(i);
  }
  isReturned.resize(program.values.size());
  for (const ByteRange &range : program.results)
    isReturned[range.value] = true;
  isReplaced.resize(program.values.size());
  for (const ReplacedArgument &replaced : program.replaced)
    isReplaced[replaced.argument] = true;
}

/// Whether @range is all of its value.
bool Sharing::isWhole(const ByteRange &range) const {
  const StepValue &value = program.values[range.value];
  return range.offset == value.offset && range.bytes == value.bytes;
}

/// Whether another op reads @value when @op is over, or beside it.
bool Sharing::isReadBehind(Id value, Id op) const {
  return isReturned[value] || llvm::any_of(readers[value], [&](Id reader) {
           return reader != op && end[reader] > op;
         });
}

/// The same of a part that lies in @value, if that is a pack.
bool Sharing::isPartReadBehind(Id value, Id op) const {
  Id from = maker[value];
  if (from < 0 || program.ops[from].kind != StepOpKind::Copy)
    return false;
  return llvm::any_of(program.ops[from].reads, [&](const ByteRange &part) {
    return places[part.value].buffer == places[value].buffer &&
           isReadBehind(part.value, op);
  });
}

/// Whether the op that writes a new state over all of @buffer, or an op after
/// it, reads @value, which lies in @buffer, or the step returns it.
bool Sharing::isReadAfterReplacement(Id value, Id buffer) const {
  Id op = replacer[buffer];
  return op >= 0 && maker[value] != op &&
         (isReadBehind(value, op) || llvm::is_contained(readers[value], op));
}

/// What @value, the result of a launch, goes over; null: nothing.
const ByteRange *Sharing::getTiedInput(Id value) const {
  const StepOp &op = program.ops[maker[value]];
  for (auto [input, result] : op.inPlace)
    if (op.writes[result].value == value)
      return &op.reads[input];
  return nullptr;
}

/// What @op's results are for.
Purpose Sharing::getPurpose(const StepOp &op) const {
  if (op.kind != StepOpKind::Start)
    return op.kind == StepOpKind::Copy ? Purpose::Gradients
                                       : Purpose::Activations;
  if (op.queue == Queue::AllGather)
    return Purpose::Gathered;
  bool isCopy = op.queue == Queue::D2H || op.queue == Queue::H2D;
  return isCopy ? Purpose::Activations : Purpose::Gradients;
}

//===----------------------------------------------------------------------===//
// Places
//===----------------------------------------------------------------------===//

void Sharing::create(Id id, Purpose purpose) {
  const StepValue &value = program.values[id];
  StepBuffer &buffer = buffers.emplace_back();
  buffer.bytes = value.bytes;
  buffer.purpose = purpose;
  buffer.isHost = program.buffers[value.buffer].isHost;
  buffer.isArgument = value.isArgument;
  if (value.isArgument)
    buffer.stateOffset = program.buffers[value.buffer].stateOffset;
  replacer.push_back(-1);
  places[id] = {Id(buffers.size()) - 1, 0};
}

/// What the step takes stays where it is: the runtime fills it.
void Sharing::placeArguments() {
  for (auto [i, value] : llvm::enumerate(program.values))
    if (value.isArgument)
      create(i, program.buffers[value.buffer].purpose);
}

/// Parts of a pack are computed where they will lie, if they are results of
/// launches and lie nowhere else yet. Other parts are copied.
void Sharing::placeParts() {
  for (const StepOp &op : program.ops) {
    if (op.kind != StepOpKind::Copy)
      continue;
    Id pack = op.writes[0].value;
    create(pack, getPurpose(op));
    for (auto [part, place] : llvm::zip_equal(op.reads, op.places)) {
      Id from = maker[part.value];
      if (from >= 0 && program.ops[from].kind == StepOpKind::Launch &&
          isWhole(part) && !isPlaced(part.value) && !getTiedInput(part.value))
        places[part.value] = {places[pack].buffer,
                              place - program.values[pack].offset};
    }
  }
}

/// A result that is tied to a value, which is tied in turn, ... lies where the
/// pack wants the last of them.
void Sharing::placeChains() {
  for (const StepOp &op : program.ops) {
    if (op.kind != StepOpKind::Copy)
      continue;
    Id pack = op.writes[0].value;
    for (auto [part, place] : llvm::zip_equal(op.reads, op.places)) {
      SmallVector<Id> chain;
      for (const ByteRange *range = &part; range && isWhole(*range);) {
        Id from = maker[range->value];
        bool isOnlyRead =
            readers[range->value].size() == 1 && !isReturned[range->value];
        if (from < 0 || program.ops[from].kind != StepOpKind::Launch ||
            (!chain.empty() && !isOnlyRead))
          break;
        chain.push_back(range->value);
        range = getTiedInput(range->value);
      }
      if (chain.size() < 2 ||
          llvm::any_of(chain, [&](Id value) { return isPlaced(value); }))
        continue;
      for (Id value : chain)
        places[value] = {places[pack].buffer,
                         place - program.values[pack].offset};
    }
  }
}

/// Whether @op, which makes a new state, may write it over the old one: compute
/// does, what copies it to the host, and a gather of what stays gathered.
static bool mayReplace(const StepOp &op) {
  return op.kind == StepOpKind::Launch ||
         (op.kind == StepOpKind::Start &&
          (op.queue == Queue::D2H || op.queue == Queue::AllGather));
}

/// A new state goes over the old one where nothing reads the old one any more.
void Sharing::placeReplacements() {
  for (const ReplacedArgument &replaced : program.replaced) {
    Id value = replaced.value.value, from = maker[value];
    if (from < 0 || !mayReplace(program.ops[from]) ||
        !isWhole(replaced.value) || isPlaced(value) || getTiedInput(value) ||
        isReadBehind(replaced.argument, from))
      continue;
    // The launch itself would have to be tied.
    if (llvm::is_contained(readers[replaced.argument], from))
      continue;
    places[value] = places[replaced.argument];
    replacer[places[value].buffer] = from;
  }
}

/// A result over what it may go over, or in a buffer of its own.
void Sharing::placeWrites(Id i) {
  const StepOp &op = program.ops[i];
  for (auto [input, result] : op.inPlace) {
    const ByteRange &over = op.reads[input];
    const StepValue &value = program.values[over.value];
    // An argument that nothing replaces must stay as it is, and a transfer
    // never sends a sum of it from its own place.
    bool canGo = !value.isArgument ||
                 (op.kind == StepOpKind::Launch && isReplaced[over.value]);
    if (Id written = op.writes[result].value;
        !isPlaced(written) && canGo && isWhole(over) && isPlaced(over.value) &&
        !isReadBehind(over.value, i) && !isPartReadBehind(over.value, i) &&
        !isReadAfterReplacement(written, places[over.value].buffer))
      places[written] = places[over.value];
  }
  for (const ByteRange &range : op.writes)
    if (!isPlaced(range.value))
      create(range.value, getPurpose(op));
}

/// What no op makes any more must be somewhere, too.
void Sharing::placeRest() {
  for (size_t value = 0; value != places.size(); ++value)
    if (!isPlaced(value))
      create(value, Purpose::Other);
}

//===----------------------------------------------------------------------===//
// What follows
//===----------------------------------------------------------------------===//

/// Brings all ranges to where their values lie now.
void Sharing::move() {
  int64_t next[2] = {0, 0};
  for (StepBuffer &buffer : buffers) {
    buffer.offset = next[buffer.isHost];
    next[buffer.isHost] += getPlaceBytes(buffer.bytes);
  }
  std::vector<int64_t> distance;
  for (auto [value, place] : llvm::zip_equal(program.values, places)) {
    int64_t offset = buffers[place.buffer].offset + place.offset;
    distance.push_back(offset - value.offset);
    value.buffer = place.buffer;
    value.parts.clear();
  }
  program.buffers = std::move(buffers);
  program.arenaBytes = program.hostBytes = 0;
  moveValues(program, distance);
  for (const ByteRange &range : program.results)
    program.buffers[program.values[range.value].buffer].isResult = true;
}

/// What is copied beside @op, and which parts are not.
void Sharing::count(StepOp &op) {
  if (op.kind == StepOpKind::Launch) {
    op.copiedBytes = 0;
    // A result that got a place of its own starts as a copy.
    for (auto [input, result] : op.inPlace)
      if (op.reads[input].offset != op.writes[result].offset)
        op.copiedBytes += 2 * op.writes[result].bytes;
  } else if (op.kind == StepOpKind::Copy) {
    const ByteRange &pack = op.writes[0];
    // Gaps are zeroed.
    op.copiedBytes = pack.bytes;
    for (auto [part, place] : llvm::zip_equal(op.reads, op.places)) {
      op.copiedBytes -= part.bytes;
      if (part.offset != place)
        op.copiedBytes += 2 * part.bytes;
      else
        program.values[pack.value].parts.push_back(part);
    }
  }
}

/// What the next step finds in an argument's place must have been put there.
void Sharing::addCopies() {
  Id source = 0;
  bool backward = !program.ops.empty() && program.ops.back().backward;
  for (const StepOp &op : program.ops)
    source = std::max(source, op.source + 1);
  for (auto [i, replaced] : llvm::enumerate(program.replaced)) {
    const StepValue &argument = program.values[replaced.argument];
    if (replaced.value.offset == argument.offset)
      continue;
    StepOp &keep = program.ops.emplace_back();
    keep.backward = backward;
    keep.source = source++;
    ByteRange range = makeKeep(program, i, keep);
    program.results[replaced.result] = range;
    program.buffers[program.values[range.value].buffer].isResult = true;
  }
}

void Sharing::run() {
  dropCopies();
  collectReaders();
  places.resize(program.values.size());
  placeArguments();
  placeParts();
  placeChains();
  placeReplacements();
  for (size_t op = 0; op != program.ops.size(); ++op)
    placeWrites(op);
  placeRest();
  move();
  for (StepOp &op : program.ops)
    count(op);
  addCopies();
}

void mlir::fsdp::shareBuffers(StepProgram &program) { Sharing(program).run(); }
