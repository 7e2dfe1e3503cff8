//===- StepProblem.cpp - From a program to a problem ----------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Numbers what the spine, floating ops and transfers are (OpRoles.h), finds
// what each comes after and what memory it holds, and cuts the spine into
// segments where something happens.
//
//===----------------------------------------------------------------------===//

#include "fsdp/Schedule/StepProblem.h"
#include "OpRoles.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/Support/FormatVariadic.h"

#include <algorithm>
#include <set>

using namespace mlir::fsdp;
using namespace mlir::fsdp::sched;
using llvm::SmallVector;

namespace {
class Builder {
public:
  Builder(const StepProgram &program, const TimedProgram &times, bool holds)
      : program(program), times(times), holds(holds), accesses(program) {
    result.roles = getOpRoles(program, accesses);
  }

  llvm::Expected<StepProblem> build();

private:
  /// Of a buffer: the first and last op of the spine that touches it, the
  /// transfers that make and send it; whether tails or the epilogue touch it,
  /// and whether the epilogue reads it.
  struct Use {
    Id first = -1, last = -1;
    Id made = -1, sent = -1;
    bool behind = false, atEnd = false;
  };

  bool isStart(Id op) const {
    return program.ops[op].kind == StepOpKind::Start;
  }
  bool isWait(Id op) const { return program.ops[op].kind == StepOpKind::Wait; }
  Id getBuffer(Id value) const { return program.values[value].buffer; }

  void number();
  void addFloating();
  void addTransfers();
  void holdTails();
  void hold(Id floating, Id spineIndex);
  std::vector<Use> collectUses() const;
  void addMemory();
  void addTailMemory();
  void cutStretches();
  void cutSpine();
  Id getSegment(Id spineIndex) const;

  const StepProgram &program;
  const TimedProgram &times;
  bool holds;
  StepProblem result;
  Accesses accesses;
  /// Spine ops in order, and the place there of each op.
  std::vector<Id> spine, spineIndex;
  /// By op: number as a floating op, as a transfer.
  std::vector<Id> floatingOf, transferOf;
  /// Places where a segment begins.
  std::vector<Id> marks;
  std::vector<int64_t> live;
  /// Places where a part of what a transfer brought is not needed any more.
  std::vector<Id> freed;
  /// Buffers that only tails and the epilogue touch.
  std::vector<Id> ofTails;
};
} // namespace

void Builder::number() {
  spineIndex.assign(program.ops.size(), -1);
  floatingOf.assign(program.ops.size(), -1);
  transferOf.assign(program.ops.size(), -1);
  std::vector<bool> prelude = findPrelude(program, accesses, result.roles);
  auto addSpine = [&](Id op) {
    spineIndex[op] = spine.size();
    spine.push_back(op);
  };
  for (size_t i = 0; i != program.ops.size(); ++i)
    if (prelude[i])
      addSpine(i);
  for (size_t i = 0; i != program.ops.size(); ++i) {
    if (isWait(i) || prelude[i])
      continue;
    if (result.roles[i] == OpRole::Epilogue) {
      result.epilogue.push_back(i);
      result.epilogueTime +=
          isStart(i) ? times.ops[i].cost.total() : times.ops[i].work;
    } else if (isStart(i)) {
      transferOf[i] = result.transfers.size();
      result.transfers.push_back(i);
    } else if (result.roles[i] == OpRole::Spine) {
      addSpine(i);
    } else {
      floatingOf[i] = result.floating.size();
      result.floating.push_back(i);
    }
  }
}

//===----------------------------------------------------------------------===//
// Order. Until cutSpine, segments are places in the spine.
//===----------------------------------------------------------------------===//

void Builder::addTransfers() {
  auto &transfers = result.problem.transfers;
  for (Id op : result.transfers) {
    Transfer &transfer = transfers.emplace_back();
    transfer.cost = times.ops[op].cost;
    transfer.queue = program.ops[op].queue;
    for (const ByteRange &range : program.ops[op].reads)
      if (Id from = accesses.maker[range.value]; from >= 0) {
        if (isStart(from))
          transfer.after.push_back(transferOf[from]);
        else
          transfer.ready = std::max(transfer.ready, spineIndex[from]);
      }
    // What goes to the host is held until it is there: it goes when forward has
    // read it for the last time.
    if (transfer.queue == Queue::D2H)
      for (const ByteRange &range : program.ops[op].reads)
        for (Id reader : accesses.readers[range.value])
          if (reader < op)
            transfer.ready = std::max(transfer.ready, spineIndex[reader]);
    for (const ByteRange &range : program.ops[op].writes)
      for (Id reader : accesses.readers[range.value])
        if (Id place = spineIndex[reader]; place >= 0) {
          transfer.firstUse = transfer.firstUse < 0
                                  ? place
                                  : std::min(transfer.firstUse, place);
          transfer.lastUse = std::max(transfer.lastUse, place);
        }
  }
  // Shards that are fetched for a gather, and what is gathered for another one:
  // those that read first.
  for (Transfer &gather : llvm::reverse(transfers))
    for (Id from : gather.after)
      if (Transfer &fetch = transfers[from]; isFetch(fetch.queue)) {
        Id place = gather.firstUse;
        fetch.firstUse =
            fetch.firstUse < 0 ? place : std::min(fetch.firstUse, place);
        fetch.lastUse = std::max(fetch.lastUse, place);
      }
}

void Builder::addFloating() {
  for (Id op : result.floating) {
    FloatingOp &floating = result.problem.floating.emplace_back();
    floating.work = times.ops[op].work;
    if (result.roles[op] == OpRole::Cast) {
      for (const ByteRange &range : program.ops[op].writes) {
        for (Id gather : accesses.readers[range.value])
          floating.before = transferOf[gather];
        floating.heldBytes += program.buffers[getBuffer(range.value)].bytes;
      }
      continue;
    }
    llvm::SmallSetVector<Id, 2> after, afterFloating;
    for (const ByteRange &range : program.ops[op].reads)
      if (Id from = accesses.maker[range.value]; from >= 0) {
        if (isStart(from)) {
          // Where the spine reads that result as well, holdTails lets the tail
          // begin after the first segment that does.
          if (result.problem.transfers[transferOf[from]].firstUse < 0)
            after.insert(transferOf[from]);
        } else if (floatingOf[from] >= 0)
          afterFloating.insert(floatingOf[from]);
      }
    floating.after.assign(after.begin(), after.end());
    floating.afterFloating.assign(afterFloating.begin(), afterFloating.end());
  }
}

/// Makes a tail come behind a place in the spine: one of the transfers that it
/// comes after, the last one, does.
void Builder::hold(Id floating, Id place) {
  Id last = -1;
  SmallVector<Id, 8> work = {floating};
  std::set<Id> seen;
  while (!work.empty()) {
    Id f = work.pop_back_val();
    if (!seen.insert(f).second)
      continue;
    for (Id t : result.problem.floating[f].after)
      if (last < 0 || result.problem.transfers[t].ready >
                          result.problem.transfers[last].ready)
        last = t;
    work.append(result.problem.floating[f].afterFloating.begin(),
                result.problem.floating[f].afterFloating.end());
  }
  Id &ready = result.problem.transfers[last].ready;
  if (place <= ready)
    return;
  result.isHeld |= holds;
  if (holds)
    ready = place;
}

/// Tails read more than reductions, and write over what others read.
void Builder::holdTails() {
  std::vector<SmallVector<std::pair<Id, ByteRange>, 4>> reads(
      program.buffers.size());
  for (size_t i = 0; i != program.ops.size(); ++i) {
    const StepOp &op = program.ops[i];
    Id f = floatingOf[i];
    if (f >= 0 && result.roles[i] == OpRole::Tail) {
      FloatingOp &tail = result.problem.floating[f];
      // Places in the spine, for when all that it comes after is known.
      SmallVector<Id, 8> places;
      for (const ByteRange &range : op.reads)
        if (Id from = accesses.maker[range.value]; from >= 0) {
          if (isStart(from))
            places.push_back(
                result.problem.transfers[transferOf[from]].firstUse);
          else
            places.push_back(spineIndex[from]);
        }
      llvm::erase(places, -1);
      for (const ByteRange &written : op.writes)
        for (auto &[reader, range] : reads[getBuffer(written.value)]) {
          if (!range.overlaps(written))
            continue;
          Id gather = transferOf[reader];
          if (floatingOf[reader] >= 0 && result.roles[reader] == OpRole::Cast)
            gather = result.problem.floating[floatingOf[reader]].before;
          if (gather >= 0 && result.problem.transfers[gather].firstUse >= 0)
            places.push_back(result.problem.transfers[gather].firstUse);
          else if (gather >= 0 && !llvm::is_contained(tail.after, gather))
            tail.after.push_back(gather);
          else if (spineIndex[reader] >= 0)
            places.push_back(spineIndex[reader]);
          else if (floatingOf[reader] >= 0 &&
                   !llvm::is_contained(tail.afterFloating, floatingOf[reader]))
            tail.afterFloating.push_back(floatingOf[reader]);
        }
      for (Id place : places)
        hold(f, place);
    }
    for (const ByteRange &range : op.reads)
      reads[getBuffer(range.value)].push_back({Id(i), range});
  }
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

std::vector<Builder::Use> Builder::collectUses() const {
  std::vector<Use> uses(program.buffers.size());
  for (size_t i = 0; i != program.ops.size(); ++i) {
    if (isWait(i))
      continue;
    auto touch = [&](const ByteRange &range, bool writes) {
      Use &use = uses[getBuffer(range.value)];
      if (spineIndex[i] >= 0) {
        if (use.first < 0)
          use.first = spineIndex[i];
        use.last = spineIndex[i];
      } else if (transferOf[i] >= 0) {
        Id &transfer = writes ? use.made : use.sent;
        if (transfer < 0)
          transfer = transferOf[i];
      } else {
        use.behind |= result.roles[i] != OpRole::Cast;
      }
    };
    for (const ByteRange &range : program.ops[i].reads)
      touch(range, false);
    for (const ByteRange &range : program.ops[i].writes)
      touch(range, true);
  }
  for (Id op : result.epilogue)
    for (const ByteRange &range : program.ops[op].reads)
      uses[getBuffer(range.value)].atEnd = true;
  return uses;
}

/// Who holds each buffer: a transfer its result and its input, the spine what
/// it reads itself; the rest counts all the time.
void Builder::addMemory() {
  std::vector<Use> uses = collectUses();
  // By transfer: its inputs and where they begin.
  std::vector<SmallVector<std::pair<Id, int64_t>, 1>> inputs(
      result.transfers.size());
  // Changes of what is alive in the spine.
  std::vector<int64_t> changes(spine.size() + 1);
  int64_t &fixed = result.problem.fixedBytes;
  fixed += program.workspace.bytes;
  for (const StepBuffer &state : program.idleStates)
    if (!state.isHost)
      fixed += state.bytes;
  // A transfer's result that is read by the spine, and by tails or the epilogue
  // after it, is held up to the end of the spine's last segment.
  for (auto [b, buffer] : llvm::enumerate(program.buffers))
    if (const Use &use = uses[b]; use.made >= 0 && use.first >= 0 &&
                                  use.sent < 0 &&
                                  (use.behind || use.atEnd || buffer.isResult))
      result.problem.transfers[use.made].lastUse = spine.size() - 1;
  for (auto [b, buffer] : llvm::enumerate(program.buffers)) {
    const Use &use = uses[b];
    if (buffer.isHost)
      continue;
    bool stays = use.behind || use.atEnd || buffer.isResult;
    if (buffer.isArgument) {
      fixed += buffer.bytes;
    } else if (use.made >= 0 && use.first < 0) {
      // A reduction's result: for tails, or for longer.
      Transfer &transfer = result.problem.transfers[use.made];
      transfer.dstBytes += buffer.bytes;
      transfer.stays |= use.atEnd;
    } else if (use.made >= 0 && use.sent < 0) {
      Transfer &transfer = result.problem.transfers[use.made];
      transfer.dstBytes += buffer.bytes;
      // Of several results, as a group has them, those that are read for the
      // last time before others do not stay as long.
      if (!stays && use.last < transfer.lastUse) {
        changes[use.last + 1] -= buffer.bytes;
        changes[transfer.lastUse + 1] += buffer.bytes;
        freed.push_back(use.last + 1);
      }
    } else if (use.sent >= 0 && use.first >= 0) {
      // An input (or, with a transfer that works in place, input and result).
      Transfer &transfer = result.problem.transfers[use.sent];
      if (use.behind || use.atEnd) {
        changes[use.first] += buffer.bytes;
        changes.back() -= buffer.bytes;
      } else if (use.last <= transfer.ready) {
        inputs[use.sent].push_back({use.first, buffer.bytes});
      } else {
        changes[use.first] += buffer.bytes;
        changes[std::max(use.last, transfer.ready) + 1] -= buffer.bytes;
      }
    } else if (use.first >= 0) {
      changes[use.first] += buffer.bytes;
      changes[stays ? spine.size() : use.last + 1] -= buffer.bytes;
    } else if (use.behind) {
      ofTails.push_back(b);
    }
  }
  // Of several inputs, as a group has them, the last one begins with the
  // transfer's; until then the spine holds the others.
  for (auto [transfer, list] : llvm::zip(result.problem.transfers, inputs))
    for (auto [begin, bytes] : list)
      transfer.srcBegin = std::max(transfer.srcBegin, begin);
  for (auto [transfer, list] : llvm::zip(result.problem.transfers, inputs))
    for (auto [begin, bytes] : list) {
      transfer.srcBytes += bytes;
      changes[begin] += bytes;
      changes[transfer.srcBegin] -= bytes;
    }
  live.resize(spine.size());
  int64_t bytes = 0;
  for (size_t s = 0; s != spine.size(); ++s)
    live[s] = bytes += changes[s];
}

/// What tails and the epilogue make for each other counts all the time, as far
/// as it is there at once: tails run in order, and the epilogue behind them.
void Builder::addTailMemory() {
  std::vector<Id> place(program.ops.size(), -1);
  Id places = 0;
  for (Id tail : getTailOrder(result.problem))
    place[result.floating[tail]] = places++;
  for (Id op : result.epilogue)
    place[op] = places++;
  std::vector<Id> first(program.buffers.size(), places),
      last(program.buffers.size(), -1);
  for (auto [i, op] : llvm::enumerate(program.ops))
    if (place[i] >= 0)
      for (const ByteRange &range :
           llvm::concat<const ByteRange>(op.reads, op.writes)) {
        Id buffer = getBuffer(range.value);
        first[buffer] = std::min(first[buffer], place[i]);
        last[buffer] = std::max(last[buffer], place[i]);
      }
  std::vector<int64_t> changes(places + 1);
  for (Id b : ofTails) {
    const StepBuffer &buffer = program.buffers[b];
    changes[first[b]] += buffer.bytes;
    if (!buffer.isResult)
      changes[last[b] + 1] -= buffer.bytes;
  }
  int64_t bytes = 0;
  for (int64_t change : changes)
    result.tailBytes = std::max(result.tailBytes, bytes += change);
  result.problem.fixedBytes += result.tailBytes;
}

//===----------------------------------------------------------------------===//
// Segments
//===----------------------------------------------------------------------===//

Id Builder::getSegment(Id place) const {
  if (place < 0)
    return -1;
  return std::distance(marks.begin(), llvm::upper_bound(marks, place)) - 1;
}

/// Transfers begin between segments. Those that compute does not wait for take
/// least from it where they run into what it does wait for: so long stretches
/// have places in them, too.
void Builder::cutStretches() {
  constexpr int kPieces = 32;
  Time all = 0, piece = 0;
  for (Id op : spine)
    all += times.ops[op].work;
  std::vector<bool> isMark(spine.size() + 1);
  for (Id mark : marks)
    isMark[mark] = true;
  for (auto [place, op] : llvm::enumerate(spine)) {
    Time work = times.ops[op].work;
    if (isMark[place] || piece + work > all / kPieces) {
      marks.push_back(place);
      piece = 0;
    }
    piece += work;
  }
}

/// Kernels between two places where something happens become one segment.
void Builder::cutSpine() {
  ScheduleProblem &problem = result.problem;
  Id backward = spine.size();
  while (backward > 0 && program.ops[spine[backward - 1]].backward)
    --backward;
  marks = {0, backward};
  for (const Transfer &transfer : problem.transfers) {
    marks.push_back(transfer.ready + 1);
    if (transfer.firstUse >= 0)
      marks.insert(marks.end(), {transfer.firstUse, transfer.lastUse + 1});
    if (transfer.srcBytes)
      marks.push_back(transfer.srcBegin);
  }
  llvm::append_range(marks, freed);
  // The bound looks at what the epilogue needs.
  for (Id op : result.epilogue)
    for (const ByteRange &range : program.ops[op].reads)
      if (Id from = accesses.maker[range.value];
          from >= 0 && spineIndex[from] >= 0)
        marks.push_back(spineIndex[from] + 1);
  cutStretches();
  llvm::sort(marks);
  marks.erase(llvm::unique(marks), marks.end());
  if (marks.back() == Id(spine.size()))
    marks.pop_back();
  result.segments.resize(marks.size());
  problem.spine.resize(marks.size());
  for (auto [place, op] : llvm::enumerate(spine)) {
    Id s = getSegment(place);
    result.segments[s].push_back(op);
    SpineSegment &segment = problem.spine[s];
    segment.work += times.ops[op].work;
    bool isFirst = result.segments[s].size() == 1;
    segment.live = isFirst ? live[place] : std::max(segment.live, live[place]);
  }
  problem.backwardBegin =
      backward == Id(spine.size()) ? Id(marks.size()) : getSegment(backward);
  for (Transfer &transfer : problem.transfers) {
    transfer.ready = getSegment(transfer.ready);
    transfer.firstUse = getSegment(transfer.firstUse);
    transfer.lastUse = getSegment(transfer.lastUse);
    transfer.srcBegin = transfer.srcBytes ? getSegment(transfer.srcBegin) : -1;
  }
}

/// Times that the schedule's clock, or a sum of them, could not hold: each op
/// is counted in 64 bits of scaled work, all of them one behind the other.
static llvm::Error checkTimes(const StepProgram &program,
                              const TimedProgram &times) {
  constexpr Time kMostOfOp = 700'000'000'000'000;
  constexpr Time kMostOfStep = 100'000'000'000'000'000;
  Time sum = 0;
  for (auto [op, timed] : llvm::zip(program.ops, times.ops)) {
    Time time = timed.kind == TimedOp::Start ? timed.cost.total() : timed.work;
    if (time > kMostOfOp)
      return llvm::createStringError(
          "expected " + op.name + " to take at most " +
          llvm::formatv("{0:f0}", toSeconds(kMostOfOp)) + " s, got " +
          llvm::formatv("{0:f0}", toSeconds(time)) +
          " s by the cluster file, its table or the profile");
    sum += time;
    if (sum > kMostOfStep)
      return llvm::createStringError(
          "expected the step's kernels and transfers to take at most " +
          llvm::formatv("{0:f0}", toSeconds(kMostOfStep)) +
          " s one after the other, got more by the cluster file, its table or "
          "the profile");
  }
  return llvm::Error::success();
}

llvm::Expected<StepProblem> Builder::build() {
  if (llvm::Error error = checkTimes(program, times))
    return std::move(error);
  number();
  if (spine.empty())
    return llvm::createStringError("expected compute in the step, got none");
  addTransfers();
  addFloating();
  holdTails();
  addMemory();
  cutSpine();
  addTailMemory();
  result.problem.numLinks = kNumLinks;
  result.problem.cost = times.cost;
  result.problem.ordersCollectives = llvm::any_of(
      times.ops, [](const TimedOp &op) { return op.previous >= 0; });
  if (std::string error = checkProblem(result.problem); !error.empty())
    return llvm::createStringError(error);
  return std::move(result);
}

llvm::Expected<StepProblem>
mlir::fsdp::sched::getStepProblem(const StepProgram &program,
                                  const TimedProgram &times, bool holds) {
  return Builder(program, times, holds).build();
}
