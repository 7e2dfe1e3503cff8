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

bool Machine::isReady(const MachineState &s, int stream,
                      bool &memoryOnly) const {
  if (!hasMore(s, stream) || s.streamLeft[stream] >= 0)
    return false;
  const Item &next = streams[stream][s.begun[stream]];
  for (int other = 0; other != kNumStreams; ++other)
    if (s.streamLeft[other] >= 0 &&
        streams[other][s.begun[other] - 1].link == next.link)
      return false;
  if (s.line < next.floor || !allDone(s, next.after))
    return false;
  if (next.rank < 0) {
    // Its own room is there if everyone was careful.
    memoryOnly = next.takes &&
                 s.bytes + spineBytes(s) + next.takes > budget;
    return !memoryOnly;
  }
  if (next.rank > 0) {
    Ref previous = byRank[next.rank - 1];
    if (s.begun[previous.stream] <= previous.index)
      return false;
  }
  memoryOnly = taken(s) + spineBytes(s) + next.takes > budget;
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
bool Machine::tryCompute(MachineState &s, Turn turn, bool begun,
                         bool blocked) {
  Time stall = std::numeric_limits<Time>::max();
  if (size_t(s.line) < line.size()) {
    const Step &step = line[s.line];
    bool ready = allDone(s, step.needs);
    bool fits = taken(s) + step.live + step.begins <= budget;
    bool held = (turn.order == Turn::Hold && !begun) ||
                tailGoesFirst(s, turn);
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
    if (!isReady(s, stream, memoryOnly))
      continue;
    begin(s, stream);
    progress = true;
  }
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
      left = std::max<int64_t>(0, left - step * rates[(stream + 1) * 64 + mask]);
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

Time Machine::getTurnsLeft(const MachineState &s) const {
  Time turns = 0, tail = std::numeric_limits<Time>::max();
  for (int stream : choices) {
    if (!hasMore(s, stream))
      continue;
    turns += streamWork[stream][s.begun[stream]];
    tail = std::min(tail, streamTail[stream]);
  }
  return turns ? turns + tail : 0;
}

Time Machine::getBound(const MachineState &s) const {
  Time compute = lineAfter[s.line] + tailsAfter[s.tail];
  if (s.running)
    compute -= s.running == MachineState::Line ? line[s.line].work
                                               : tails[s.tail].work;
  compute += (s.running ? s.left : 0) / kFullRate;
  Time bound = s.now + compute;
  for (int stream : choices)
    if (hasMore(s, stream))
      bound = std::max(bound, s.now + streamAfter[stream][s.begun[stream]]);
  bound = std::max(bound, s.now + getTurnsLeft(s));
  for (int stream : others) {
    Time left = std::max<int64_t>(s.streamLeft[stream], 0) / kFullRate;
    if (hasMore(s, stream))
      bound = std::max(bound,
                       s.now + left + streamAfter[stream][s.begun[stream]]);
    else if (left)
      bound = std::max(bound, s.now + left + streamTail[stream]);
  }
  return bound;
}

bool Machine::dominates(const MachineState &a, const MachineState &b) {
  if (a.now > b.now)
    return false;
  MachineState c = a;
  if (c.now < b.now)
    idle(c, b.now);
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
  split(c, lineC, tailC);
  split(b, lineB, tailB);
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
  Id &last = recorder->lastOnLink[next.link];
  if (last >= 0 &&
      problem.transfers[last].queue != problem.transfers[t].queue)
    comeAfter(last);
  last = t;
  if (next.rank < 0)
    return;
  // What is on its own link is complete; what is on others must be said.
  llvm::SmallVector<Ref, 4> open;
  int64_t bytes = s.bytes + spineBytes(s) + next.takes;
  for (Ref r : recorder->unknown)
    if (item(r).link != next.link) {
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
  Recorder log{schedule, {}, std::vector<Id>(problem.numLinks, -1)};
  recorder = &log;
  MachineState s = getStart();
  Time begin = 0;
  bool ok = llvm::all_of(turns,
                         [&](Turn turn) { return take(s, turn, begin); });
  ok = ok && finish(s);
  recorder = nullptr;
  schedule.makespan = s.now;
  return ok;
}
