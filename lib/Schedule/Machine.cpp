//===- Machine.cpp - A step as a function of its link order ---------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Machine.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>

using namespace mlir::fsdp;
using namespace mlir::fsdp::sched;

MachineState Machine::getStart() const {
  MachineState s;
  s.bytes = problem.fixedBytes;
  return s;
}

//===----------------------------------------------------------------------===//
// What may begin
//===----------------------------------------------------------------------===//

/// What is under way on its link does not matter: it is there because its turn
/// ended early.
bool Machine::isReadyBesideMemory(const MachineState &s, int stream) const {
  if (!hasMore(s, stream) || s.streamLeft[stream] >= 0)
    return false;
  const Item &next = streams[stream][s.begun[stream]];
  return s.line >= next.floor && allDone(s, next.after) &&
         (!inRankOrder || next.rank <= 0 || hasBegun(s, byRank[next.rank - 1]));
}

/// Gathers and fetches that are used earlier than @next and have not begun fit
/// in @room: that must stay theirs, or compute never comes to the end of @next.
/// A fetch whose copy to the host still holds its input brings its room along.
bool Machine::leavesRoom(const MachineState &s, const Item &next,
                         int64_t room) const {
  for (int stream : ranked)
    for (int32_t i = s.begun[stream], e = streams[stream].size();
         i != e && streams[stream][i].rank < next.rank; ++i) {
      const Item &other = streams[stream][i];
      if (other.reserved && s.line < other.floor)
        continue;
      int64_t held = 0;
      for (Ref r : other.after)
        held += isDone(s, r) ? 0 : item(r).frees;
      room -= std::max<int64_t>(0, other.takes - held);
      if (room < 0)
        return false;
    }
  return true;
}

bool Machine::isReady(const MachineState &s, int stream, bool &memoryOnly) {
  if (!isReadyBesideMemory(s, stream))
    return false;
  const Item &next = streams[stream][s.begun[stream]];
  // A reduction's own room is there if everyone was careful.
  int64_t bytes = next.rank < 0 ? s.bytes : taken(s);
  int64_t room = budget - bytes - spineBytes(s) - next.takes;
  memoryOnly = next.takes && (room < 0 || !leavesRoom(s, next, room));
  memoryWaits |= memoryOnly;
  return !memoryOnly;
}

bool Machine::fitsNextGather(const MachineState &s) const {
  for (int stream : choices)
    if (hasMore(s, stream)) {
      const Item &next = streams[stream][s.begun[stream]];
      if (next.rank >= 0)
        return taken(s) + spineBytes(s) + next.takes <= budget;
    }
  return true;
}

/// How long @step waits at least. @pending is the stream whose turn it is.
Time Machine::getStall(const MachineState &s, const Step &step,
                       int pending) const {
  Time stall = 0;
  for (Ref r : step.needs) {
    if (isDone(s, r))
      continue;
    Time wait = 0;
    if (r.index == s.begun[r.stream] - 1) {
      wait = s.streamLeft[r.stream] / kFullRate;
    } else {
      wait = item(r).duration;
      if (pending >= 0 && pending != r.stream && s.streamLeft[pending] > 0)
        wait += s.streamLeft[pending] / kFullRate;
    }
    stall = std::max(stall, wait);
  }
  return stall;
}

bool Machine::tailGoesFirst(const MachineState &s, Turn turn) const {
  if (turn.tails == Turn::TailsLate || size_t(s.tail) >= tails.size())
    return false;
  return llvm::all_of(tails[s.tail].needs, [&](Ref r) {
    return turn.tails == Turn::TailsReady ? isDone(s, r)
                                          : r.index < s.begun[r.stream];
  });
}

/// Begins the next op of the spine, or a tail where the spine is at its end or
/// waits long enough, or waits for memory that only tails can free.
bool Machine::tryCompute(MachineState &s, Turn turn, bool begun, bool blocked) {
  Time stall = std::numeric_limits<Time>::max();
  if (size_t(s.line) < line.size()) {
    const Step &step = line[s.line];
    bool ready = allDone(s, step.needs);
    bool fits = taken(s) + step.live + step.begins <= budget;
    memoryWaits |= !fits;
    bool held = (turn.order == Turn::Hold && !begun) || tailGoesFirst(s, turn);
    if (ready && fits && !held && s.tail >= step.tailsBefore) {
      if (recorder)
        recordCompute(s, step.op, step.needs);
      s.running = MachineState::Line;
      s.left = step.work * kFullRate;
      s.bytes += step.begins;
      return true;
    }
    if (!ready && !blocked && !turn.tails)
      stall = getStall(s, step, turn.stream);
  }
  if (size_t(s.tail) >= tails.size() || !allDone(s, tails[s.tail].needs))
    return false;
  const TailStep &step = tails[s.tail];
  if (step.work > stall)
    return false;
  if (recorder)
    recordCompute(s, {true, step.op}, step.needs);
  s.running = MachineState::Tail;
  s.left = step.work * kFullRate;
  return true;
}

//===----------------------------------------------------------------------===//
// Begin and end
//===----------------------------------------------------------------------===//

void Machine::begin(MachineState &s, int stream) {
  const Item &next = streams[stream][s.begun[stream]++];
  if (recorder)
    recordStart(s, next);
  s.streamLeft[stream] = next.duration * kFullRate;
  s.bytes += next.takes;
  if (next.owed)
    s.owed -= next.takes;
}

void Machine::complete(MachineState &s, int stream) {
  s.streamLeft[stream] = -1;
  const Item &done = streams[stream][s.begun[stream] - 1];
  s.bytes -= done.frees;
  if (recorder && done.frees)
    recorder->unknown.push_back({int8_t(stream), s.begun[stream] - 1});
}

void Machine::endCompute(MachineState &s) {
  if (s.running == MachineState::Line) {
    const Step &step = line[s.line++];
    s.bytes -= step.frees;
    s.owed += step.owes;
  } else {
    s.bytes -= tails[s.tail++].frees;
  }
  s.running = MachineState::Nothing;
}

void Machine::startFree(MachineState &s, bool &progress) {
  for (int stream : others) {
    bool memoryOnly = false;
    if (!isReady(s, stream, memoryOnly) || hindersCompute(s, stream))
      continue;
    begin(s, stream);
    progress = true;
  }
}

/// With the next transfer of @stream under way, what computes next and can do
/// without it would not find room.
bool Machine::hindersCompute(const MachineState &s, int stream) const {
  const Item &next = streams[stream][s.begun[stream]];
  bool isRunning = s.running == MachineState::Line;
  int32_t at = s.line + isRunning;
  if (next.rank < 0 || size_t(at) >= line.size() ||
      segmentAt[problem.transfers[next.transfer].firstUse] <= at)
    return false;
  int64_t bytes = taken(s) + line[at].live + line[at].begins;
  if (isRunning)
    bytes -= line[s.line].frees;
  for (Ref r : line[at].needs)
    bytes += hasBegun(s, r) ? 0 : item(r).takes;
  return bytes + next.takes > budget;
}

/// Several transfers of streams that share links are under way.
bool Machine::areTogether(const MachineState &s) const {
  int count = 0;
  for (int stream : choices)
    count += s.streamLeft[stream] >= 0;
  return count > 1;
}

/// As advance, with latencies that overlap and links that are shared evenly.
bool Machine::advanceTogether(MachineState &s, Time limit, QueueMask mask) {
  std::array<int, kNumStreams> rate = {};
  std::array<int64_t, kNumStreams> until = {};
  std::array<Id, kNumStreams> worksOn;
  worksOn.fill(-1);
  for (int stream = 0; stream != kNumStreams; ++stream) {
    if (s.streamLeft[stream] < 0)
      continue;
    const Item &x = streams[stream][s.begun[stream] - 1];
    if (s.streamLeft[stream] > x.work * kFullRate)
      until[stream] = x.work * kFullRate;
    else
      worksOn[stream] = x.link;
  }
  Time step = limit - s.now;
  for (int stream = 0; stream != kNumStreams; ++stream) {
    if (s.streamLeft[stream] < 0)
      continue;
    rate[stream] = rates[(stream + 1) * 64 + mask];
    if (worksOn[stream] >= 0)
      rate[stream] = std::max<int>(
          1, rate[stream] / llvm::count(worksOn, worksOn[stream]));
    int64_t left = s.streamLeft[stream] - until[stream];
    step = std::min<Time>(step, (left + rate[stream] - 1) / rate[stream]);
  }
  if (s.running)
    step = std::min<Time>(step, (s.left + rates[mask] - 1) / rates[mask]);
  s.now += step;
  for (int stream = 0; stream != kNumStreams; ++stream)
    if (int64_t &left = s.streamLeft[stream]; left >= 0) {
      left = std::max(until[stream], left - step * rate[stream]);
      if (left == 0)
        complete(s, stream);
    }
  if (s.running) {
    s.left = std::max<int64_t>(0, s.left - step * rates[mask]);
    if (s.left == 0)
      endCompute(s);
  }
  return true;
}

/// Goes on to the next end of something, at most until @limit. False if nothing
/// runs.
bool Machine::advance(MachineState &s, Time limit) {
  QueueMask mask = s.running ? maskOf(Queue::Compute) : 0;
  for (int stream = 0; stream != kNumStreams; ++stream)
    if (s.streamLeft[stream] >= 0)
      mask |= maskOf(Queue(stream + 1));
  if (!mask)
    return false;
  if (latencies && areTogether(s))
    return advanceTogether(s, limit, mask);
  Time step = limit - s.now;
  auto bound = [&](int64_t left, int queue) {
    int rate = rates[queue * 64 + mask];
    step = std::min<Time>(step, (left + rate - 1) / rate);
  };
  if (s.running)
    bound(s.left, 0);
  for (int stream = 0; stream != kNumStreams; ++stream)
    if (s.streamLeft[stream] >= 0)
      bound(s.streamLeft[stream], stream + 1);
  s.now += step;
  for (int stream = 0; stream != kNumStreams; ++stream)
    if (int64_t &left = s.streamLeft[stream]; left >= 0) {
      left =
          std::max<int64_t>(0, left - step * rates[(stream + 1) * 64 + mask]);
      if (left == 0)
        complete(s, stream);
    }
  if (s.running) {
    s.left = std::max<int64_t>(0, s.left - step * rates[mask]);
    if (s.left == 0)
      endCompute(s);
  }
  return true;
}

bool Machine::take(MachineState &s, Turn turn, Time &beginTime, Time latest) {
  int stream = turn.stream;
  s.careful = turn.careful;
  constexpr Time forever = std::numeric_limits<Time>::max() / 2;
  bool begun = false;
  while (true) {
    for (bool progress = true; progress;) {
      progress = false;
      startFree(s, progress);
      bool blocked = false;
      if (turn.order == Turn::ComputeFirst && !s.running &&
          tryCompute(s, turn, begun, blocked)) {
        progress = true;
        continue;
      }
      if (!begun && isReady(s, stream, blocked)) {
        beginTime = s.now;
        begin(s, stream);
        if (turn.early)
          return true;
        begun = progress = true;
      }
      if (!s.running && tryCompute(s, turn, begun, blocked))
        progress = true;
    }
    if (!advance(s, forever) || (!begun && s.now > latest))
      return false;
    if (begun && s.streamLeft[stream] < 0)
      return true;
  }
}

bool Machine::finish(MachineState &s) {
  s.careful = true;
  idle(s, std::numeric_limits<Time>::max() / 2);
  if (size_t(s.line) != line.size() || size_t(s.tail) != tails.size())
    return false;
  for (int stream = 0; stream != kNumStreams; ++stream)
    if (hasMore(s, stream))
      return false;
  return true;
}

/// Goes on without a turn until @limit or until nothing moves.
void Machine::idle(MachineState &s, Time limit) {
  while (s.now < limit) {
    for (bool progress = true; progress;) {
      progress = false;
      startFree(s, progress);
      if (!s.running && tryCompute(s, {-1}, true, false))
        progress = true;
    }
    if (!advance(s, limit))
      return;
  }
}

//===----------------------------------------------------------------------===//
// Comparison
//===----------------------------------------------------------------------===//

/// How long the links of the choices are busy with what has not begun.
Time Machine::getChoicesBusy(const MachineState &s) const {
  Time busy = 0;
  for (int stream : choices) {
    Time left = streamWork[stream][s.begun[stream]];
    busy = oneAfterOther ? busy + left : std::max(busy, left);
  }
  return busy;
}

Time Machine::getTurnsLeft(const MachineState &s) const {
  Time tail = std::numeric_limits<Time>::max();
  for (int stream : choices)
    if (hasMore(s, stream))
      tail = std::min(tail, streamTail[stream]);
  Time busy = getChoicesBusy(s);
  return busy ? busy + tail : 0;
}

Time Machine::getBound(const MachineState &s) const {
  Time compute = lineAfter[s.line] + tailsAfter[s.tail];
  if (s.running)
    compute -= s.running == MachineState::Line ? line[s.line].work
                                               : tails[s.tail].work;
  compute += (s.running ? s.left : 0) / kFullRate;
  Time least = getTurnsLeft(s), busy = getChoicesBusy(s);
  for (int stream = 0; stream != kNumStreams; ++stream) {
    Time left = std::max<int64_t>(s.streamLeft[stream], 0) / kFullRate;
    busy = std::max(busy, left + streamBusy[stream][s.begun[stream]]);
    if (hasMore(s, stream))
      least = std::max(least, left + streamAfter[stream][s.begun[stream]]);
    else if (left)
      least = std::max(least, left + streamTail[stream]);
  }
  // Beside what is under way compute loses, or waits, which costs more.
  Time lost = busy / kFullRate * leastLoss;
  return s.now + std::max(least, compute + lost);
}

bool Machine::dominates(const MachineState &a, const MachineState &b) {
  if (a.now > b.now)
    return false;
  auto split = [&](const MachineState &s, int64_t &lineLeft,
                   int64_t &tailLeft) {
    lineLeft = lineAfter[s.line] * kFullRate;
    tailLeft = tailsAfter[s.tail] * kFullRate;
    if (s.running == MachineState::Line)
      lineLeft += s.left - line[s.line].work * kFullRate;
    else if (s.running == MachineState::Tail)
      tailLeft += s.left - tails[s.tail].work * kFullRate;
  };
  int64_t lineC, tailC, lineB, tailB;
  split(b, lineB, tailB);
  // At full speed it could not have caught up: no need to look.
  int64_t most = (b.now - a.now) * kFullRate;
  split(a, lineC, tailC);
  if (lineC - most > lineB || tailC - most > tailB)
    return false;
  for (int stream : choices)
    if (a.streamLeft[stream] - most >
        std::max<int64_t>(b.streamLeft[stream], 0))
      return false;
  MachineState c = a;
  if (c.now < b.now)
    idle(c, b.now);
  split(c, lineC, tailC);
  if (lineC > lineB || tailC > tailB || c.line < b.line)
    return false;
  // A tail that runs holds up the line.
  if (c.running == MachineState::Tail &&
      !(b.running == MachineState::Tail && b.tail == c.tail) &&
      lineC + c.left > lineB)
    return false;
  for (int stream : others)
    if (c.begun[stream] < b.begun[stream] ||
        (c.begun[stream] == b.begun[stream] &&
         c.streamLeft[stream] > b.streamLeft[stream]))
      return false;
  for (int stream : choices)
    if (c.streamLeft[stream] > b.streamLeft[stream])
      return false;
  return fitsNextGather(c) || !fitsNextGather(b);
}

//===----------------------------------------------------------------------===//
// Writing down
//===----------------------------------------------------------------------===//

/// Compute or a start knows that @ref is complete: so is all before it.
void Machine::learn(Ref ref) {
  llvm::erase_if(recorder->unknown, [&](Ref r) {
    return r.stream == ref.stream && r.index <= ref.index;
  });
  for (Ref r : item(ref).after)
    learn(r);
}

void Machine::recordCompute(const MachineState &s, LineOp op,
                            llvm::ArrayRef<Ref> needs) {
  Schedule &schedule = recorder->schedule;
  Id at = schedule.line.size();
  auto wait = [&](Ref r) {
    Id &known = schedule.known[item(r).transfer];
    known = std::min(known, at);
    learn(r);
  };
  for (Ref r : needs)
    wait(r);
  // The model knows when an input is free; compute must be told where it
  // counts on it.
  int64_t bytes = s.bytes + (op.floating ? border(s.line) : 0);
  if (size_t(s.line) < line.size() && line[s.line].op == op)
    bytes += line[s.line].live + line[s.line].begins;
  while (!recorder->unknown.empty()) {
    int64_t unknown = 0;
    for (Ref r : recorder->unknown)
      unknown += item(r).frees;
    if (bytes + unknown <= budget)
      break;
    wait(recorder->unknown.front());
  }
  schedule.line.push_back(op);
}

void Machine::recordStart(const MachineState &s, const Item &next) {
  Schedule &schedule = recorder->schedule;
  Id t = next.transfer;
  // Before the op that runs: it may be issued there, and begins when its link
  // is free.
  schedule.place[t] = schedule.line.size() - (s.running ? 1 : 0);
  schedule.placeCause[t] = next.floorCause;
  schedule.issue.push_back(t);
  auto comeAfter = [&](Id other) {
    if (!llvm::is_contained(schedule.after[t], other))
      schedule.after[t].push_back(other);
  };
  // Behind what its link has done; what is still under way there shares it.
  // What comes before on its own queue is known; of the others the last one
  // says so of all before it.
  std::array<bool, kNumStreams> isKnown = {};
  for (int stream = 0; stream != kNumStreams; ++stream) {
    isKnown[stream] = Queue(stream + 1) == problem.transfers[t].queue;
    if (isKnown[stream] || s.begun[stream] == 0 || s.streamLeft[stream] >= 0)
      continue;
    const Item &last = streams[stream][s.begun[stream] - 1];
    if (last.link != next.link)
      continue;
    comeAfter(last.transfer);
    isKnown[stream] = true;
  }
  if (next.rank < 0)
    return;
  llvm::SmallVector<Ref, 4> open;
  int64_t bytes = s.bytes + spineBytes(s) + next.takes;
  for (Ref r : recorder->unknown)
    if (!isKnown[r.stream]) {
      open.push_back(r);
      bytes += item(r).frees;
    }
  for (Ref r : open) {
    if (bytes <= budget)
      break;
    comeAfter(item(r).transfer);
    bytes -= item(r).frees;
  }
}

bool Machine::record(llvm::ArrayRef<Turn> turns, Schedule &schedule) {
  size_t n = problem.transfers.size();
  schedule = {};
  schedule.place.assign(n, 0);
  schedule.known.assign(n, line.size() + tails.size());
  schedule.after.resize(n);
  schedule.placeCause.assign(n, Cause::Data);
  Recorder log{schedule, {}};
  recorder = &log;
  MachineState s = getStart();
  Time begin = 0;
  bool ok =
      llvm::all_of(turns, [&](Turn turn) { return take(s, turn, begin); });
  ok = ok && finish(s);
  recorder = nullptr;
  schedule.makespan = s.now;
  return ok;
}
