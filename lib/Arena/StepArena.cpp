//===- StepArena.cpp - Where the buffers of a step lie --------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Arena/StepArena.h"
#include "MoveValues.h"
#include "fsdp/Arena/ArenaBound.h"
#include "fsdp/Arena/ArenaPacking.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"

#include <algorithm>
#include <array>

using namespace mlir::fsdp;
using namespace mlir::fsdp::sched;
using llvm::SmallVector;

void mlir::fsdp::moveValues(StepProgram &program,
                            llvm::ArrayRef<int64_t> distances) {
  auto move = [&](ByteRange &range) { range.offset += distances[range.value]; };
  for (auto [value, distance] : llvm::zip_equal(program.values, distances)) {
    value.offset += distance;
    llvm::for_each(value.parts, move);
  }
  for (StepOp &op : program.ops) {
    llvm::for_each(op.reads, move);
    llvm::for_each(op.writes, move);
    for (int64_t &place : op.places)
      place += distances[op.writes[0].value];
  }
  llvm::for_each(program.results, move);
  for (ReplacedArgument &replaced : program.replaced)
    move(replaced.value);
}

//===----------------------------------------------------------------------===//
// Lives
//===----------------------------------------------------------------------===//

namespace {
/// Which ops touch which buffers, and what comes before what.
class Touches {
public:
  explicit Touches(const StepProgram &program);

  EventOrder events;
  /// By buffer: the ops, and whether a collective is one of them.
  std::vector<SmallVector<int, 4>> ops;
  std::vector<bool> isCommunicated;

private:
  int addStart(size_t place);
  void touch(llvm::ArrayRef<ByteRange> ranges, int op, bool communicates);

  const StepProgram &program;
  /// By event: its start; -1 where that is as good as an op of compute.
  std::vector<int> starts;
  /// Transfers that have not been waited for.
  int running = 0;
};
} // namespace

void Touches::touch(llvm::ArrayRef<ByteRange> ranges, int op,
                    bool communicates) {
  for (const ByteRange &range : ranges) {
    Id buffer = program.values[range.value].buffer;
    if (ops[buffer].empty() || ops[buffer].back() != op)
      ops[buffer].push_back(op);
    if (communicates)
      isCommunicated[buffer] = true;
  }
}

int Touches::addStart(size_t place) {
  const StepOp &start = program.ops[place];
  SmallVector<int> after;
  // What compute waited for at once is behind it anyway.
  for (Id event : start.after)
    if (starts[event] >= 0)
      after.push_back(starts[event]);
  ++running;
  return starts[start.event] = events.addStart(start.queue, after);
}

Touches::Touches(const StepProgram &program)
    : ops(program.buffers.size()), isCommunicated(program.buffers.size()),
      program(program), starts(getEventOps(program).start.size(), -1) {
  for (size_t i = 0; i != program.ops.size(); ++i) {
    const StepOp &op = program.ops[i];
    if (op.kind == StepOpKind::Wait) {
      --running;
      events.addWait(starts[op.event]);
      continue;
    }
    const StepOp *next =
        i + 1 == program.ops.size() ? nullptr : &program.ops[i + 1];
    bool isStart = op.kind == StepOpKind::Start;
    // What compute waits for at once, with nothing else on its way, is as good
    // as an op of compute.
    bool isAlone = isStart && running == 0 && next &&
                   next->kind == StepOpKind::Wait && next->event == op.event;
    int id = isStart && !isAlone ? addStart(i) : events.addCompute();
    bool communicates =
        isStart && op.queue != Queue::D2H && op.queue != Queue::H2D;
    touch(op.reads, id, communicates);
    touch(op.writes, id, communicates);
    i += isAlone;
  }
  touch(program.results, events.addCompute(), false);
}

//===----------------------------------------------------------------------===//
// Places
//===----------------------------------------------------------------------===//

namespace {
class Placement {
public:
  Placement(StepProgram &program, const ArenaOptions &options)
      : program(program), options(options), touches(program),
        offsets(program.buffers.size()) {}

  ArenaSummary run();

private:
  int64_t getBytes(const StepBuffer &buffer) const {
    return getPlaceBytes(buffer.bytes) + options.border;
  }
  int64_t getBytes(Id buffer) const {
    return getBytes(program.buffers[buffer]);
  }
  std::vector<ArenaBuffer> getLives(llvm::ArrayRef<Id> buffers) const;
  int64_t pack(std::vector<ArenaBuffer> &lives) const;
  std::array<int64_t, 2> placeStates(llvm::ArrayRef<Id> states);
  int64_t placeInputs(int64_t base, SmallVector<Id> &inputs);
  void placeOnHost(int64_t base, llvm::ArrayRef<Id> host);
  void placeMoving(int64_t base, llvm::ArrayRef<Id> moving);
  void placeWorkspace();
  void use(const StepBuffer &buffer) {
    if (buffer.isHost)
      return;
    summary.atPeak[unsigned(buffer.purpose)] += getBytes(buffer);
  }

  StepProgram &program;
  const ArenaOptions &options;
  Touches touches;
  /// By buffer.
  std::vector<int64_t> offsets;
  ArenaSummary summary;
};
} // namespace

/// The lives of @buffers, which the order of events may let share bytes.
std::vector<ArenaBuffer> Placement::getLives(llvm::ArrayRef<Id> buffers) const {
  std::vector<ArenaBuffer> lives;
  for (Id buffer : buffers) {
    lives.push_back(getLife(touches.events, touches.ops[buffer]));
    lives.back().size = getBytes(buffer);
  }
  return lives;
}

int64_t Placement::pack(std::vector<ArenaBuffer> &lives) const {
  if (!options.isDraft)
    return packBuffers(touches.events, lives);
  int64_t bytes = 0;
  for (ArenaBuffer &life : lives) {
    life.offset = bytes;
    bytes += life.size;
  }
  return bytes;
}

/// States lie where all programs find them. Returns where the last one ends, in
/// the device's memory and in the host's.
std::array<int64_t, 2> Placement::placeStates(llvm::ArrayRef<Id> states) {
  std::array<int64_t, 2> ends = {0, 0};
  auto add = [&](const StepBuffer &state) {
    int64_t &end = ends[state.isHost];
    end = std::max(end, state.stateOffset + getBytes(state));
    use(state);
  };
  for (Id buffer : states) {
    offsets[buffer] = program.buffers[buffer].stateOffset;
    add(program.buffers[buffer]);
  }
  llvm::for_each(program.idleStates, add);
  return ends;
}

/// The runtime fills inputs before the program begins: from @base on, large
/// ones first. Returns where the last one ends.
int64_t Placement::placeInputs(int64_t base, SmallVector<Id> &inputs) {
  llvm::sort(inputs, [&](Id a, Id b) {
    return std::make_pair(-getBytes(a), a) < std::make_pair(-getBytes(b), b);
  });
  for (Id buffer : inputs) {
    offsets[buffer] = base;
    base += getBytes(buffer);
    use(program.buffers[buffer]);
  }
  return base;
}

/// In an arena of its own, from @base on, where the states in it end.
void Placement::placeOnHost(int64_t base, llvm::ArrayRef<Id> host) {
  summary.hostBytes = base;
  if (host.empty())
    return;
  std::vector<ArenaBuffer> lives = getLives(host);
  summary.hostBytes += pack(lives);
  for (auto [buffer, life] : llvm::zip_equal(host, lives))
    offsets[buffer] = base + life.offset;
}

/// Puts what moves on top of what does not, what is communicated low.
void Placement::placeMoving(int64_t base, llvm::ArrayRef<Id> moving) {
  std::vector<ArenaBuffer> lives = getLives(moving);
  int64_t bytes = pack(lives);
  if (!options.isDraft)
    for (unsigned i : getHeaviestTogether(touches.events, lives)) {
      summary.bound += lives[i].size;
      use(program.buffers[moving[i]]);
    }
  summary.bufferCount = lives.size();
  summary.totalBytes = base + bytes;

  // Upside down it is as good a placement.
  int64_t top = 0, topUpsideDown = 0;
  for (auto [buffer, life] : llvm::zip_equal(moving, lives))
    if (touches.isCommunicated[buffer]) {
      top = std::max(top, life.offset + life.size);
      topUpsideDown = std::max(topUpsideDown, bytes - life.offset);
    }
  for (auto [buffer, life] : llvm::zip_equal(moving, lives))
    offsets[buffer] =
        base +
        (topUpsideDown < top ? bytes - life.offset - life.size : life.offset);
  top = std::min(top, topUpsideDown);
  summary.segmentOffset[2] = base;
  summary.segmentBytes[2] = top;
  summary.segmentOffset[3] = base + top;
  summary.segmentBytes[3] = bytes - top;
}

/// Behind everything else: no value ever lies in it.
void Placement::placeWorkspace() {
  StepBuffer &workspace = program.workspace;
  int64_t bytes = llvm::alignTo(getWorkspaceBytes(program), kArenaAlignment);
  workspace.offset = summary.totalBytes;
  workspace.bytes = bytes;
  summary.atPeak[unsigned(workspace.purpose)] = bytes;
  summary.segmentOffset[4] = summary.totalBytes;
  summary.segmentBytes[4] = bytes;
  summary.totalBytes += bytes;
}

ArenaSummary Placement::run() {
  SmallVector<Id> states, inputs, moving, host;
  for (auto [i, buffer] : llvm::enumerate(program.buffers)) {
    // What a plan dropped takes no room.
    if (buffer.isArgument)
      (buffer.stateOffset < 0 ? inputs : states).push_back(i);
    else if (!touches.ops[i].empty())
      (buffer.isHost ? host : moving).push_back(i);
  }
  auto [stateEnd, hostStateEnd] = placeStates(states);
  placeOnHost(hostStateEnd, host);
  int64_t inputEnd = placeInputs(stateEnd, inputs);
  summary.segmentOffset[1] = stateEnd;
  summary.segmentBytes[0] = stateEnd;
  summary.segmentBytes[1] = inputEnd - stateEnd;
  placeMoving(inputEnd, moving);
  placeWorkspace();

  std::vector<int64_t> distances;
  for (const StepValue &value : program.values)
    distances.push_back(offsets[value.buffer] -
                        program.buffers[value.buffer].offset);
  for (auto [buffer, offset] : llvm::zip_equal(program.buffers, offsets))
    buffer.offset = offset;
  moveValues(program, distances);
  program.arenaBytes = summary.totalBytes;
  program.hostBytes = summary.hostBytes;
  return summary;
}

ArenaSummary mlir::fsdp::placeBuffers(StepProgram &program,
                                      const ArenaOptions &options) {
  return Placement(program, options).run();
}
