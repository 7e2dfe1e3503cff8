//===- Machine.h - A step as a function of its link order -------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What is left to decide, once each queue's order is given, is whose turn it is
// on a link that several queues share. The machine takes these turns one by one
// and does everything else as early as it may: compute runs on, queues with a
// link of their own start what is ready, gathers start where their memory is
// free for good. Its state after a turn is all that later turns depend on, so
// states can be compared, and kept or dropped. A turn ends when its transfer is
// complete, or when it has begun: then latencies overlap, and the link is
// shared.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_LIB_SCHEDULE_MACHINE_H
#define FSDP_LIB_SCHEDULE_MACHINE_H

#include "fsdp/Schedule/ScheduleProblem.h"

#include "llvm/ADT/ArrayRef.h"

#include <utility>

namespace mlir::fsdp::sched {

/// Streams are the queues without compute, counted from 0.
constexpr int kNumStreams = kNumQueues - 1;

/// Where casts stand: by floating op, the segment before which it runs.
struct CastPlan {
  std::vector<Id> place;
  /// Gathers start where there is room for what casts may hold at the worst;
  /// if not, where there is room for what they hold then.
  bool reserve = true;
  /// Fetches start that many quarters of their time before they are used, as
  /// compute alone goes, and until then gathers may have their room; or as soon
  /// as they may.
  static constexpr int kEarly = -1;
  int lead = kEarly;
};

/// A turn: a stream, and how compute behaves until it has begun.
struct Turn {
  int8_t stream = 0;
  /// The turn ends when the transfer has begun, not when it is complete.
  bool early = false;
  /// Compute leaves room for results that are owed: whoever has its input can
  /// always begin. Without it more fits, and some ways end in a wait for ever.
  bool careful = true;
  /// Where a segment and the transfer could begin at once but may not fit both:
  /// who goes first. Hold: no segment begins before the transfer at all.
  enum : int8_t { TransferFirst, Hold, ComputeFirst } order = TransferFirst;
  /// What tails read is room. They run in waits that hold them and where
  /// nothing else can go on; or before segments, when they are ready or as soon
  /// as what they read is under way.
  enum : int8_t { TailsLate, TailsReady, TailsAwaited } tails = TailsLate;
};

struct MachineState {
  Time now = 0;
  /// The op of the line that runs or comes next; the tail likewise.
  int32_t line = 0, tail = 0;
  enum : int8_t { Nothing, Line, Tail } running = Nothing;
  bool careful = true;
  /// Parts of kFullRate times picoseconds.
  int64_t left = 0;
  /// All but the spine's own; and results of transfers that have their input
  /// and have not begun: room that must stay theirs, or nothing goes on.
  int64_t bytes = 0, owed = 0;
  /// By stream: transfers begun, and what is left of the last one (-1: done).
  std::array<int32_t, kNumStreams> begun = {};
  std::array<int64_t, kNumStreams> streamLeft = {-1, -1, -1, -1, -1};

  int32_t complete(int stream) const {
    return begun[stream] - (streamLeft[stream] >= 0);
  }
};

class Machine {
public:
  /// @frugal starts gathers where they are used, not before, and lets compute
  /// wait for everything else as soon as it is ready.
  Machine(const ScheduleProblem &problem, const CastPlan &casts, bool frugal);

  /// Streams whose turns the caller gives to the machine.
  llvm::ArrayRef<int> getChoices() const { return choices; }
  bool hasMore(const MachineState &s, int stream) const {
    return size_t(s.begun[stream]) < streams[stream].size();
  }
  size_t getCount(int stream) const { return streams[stream].size(); }
  MachineState getStart() const;

  /// Latencies on shared links are worth overlapping: turns may be early.
  bool hasLatencies() const { return latencies; }
  /// Since the last call something had to wait for memory; if nothing ever
  /// has, how compute behaves while transfers wait makes no difference.
  bool takeMemoryWaits() { return std::exchange(memoryWaits, false); }

  /// Starts the next transfer of the stream as early as it may start, and goes
  /// on until the turn ends. False if it cannot begin by @latest.
  bool take(MachineState &s, Turn turn, Time &begin,
            Time latest = std::numeric_limits<Time>::max());
  /// Goes on to the end of the step.
  bool finish(MachineState &s);

  /// From the begin of the next turn to the end of the step at least.
  Time getTurnsLeft(const MachineState &s) const;
  /// The step takes at least this if it goes on from @s.
  Time getBound(const MachineState &s) const;
  /// Whether @a, left alone until b.now, has all that @b has.
  bool dominates(const MachineState &a, const MachineState &b);
  /// Memory lets the next gather begin now.
  bool fitsNextGather(const MachineState &s) const;

  /// Plays @turns from the start and writes down what happens where.
  bool record(llvm::ArrayRef<Turn> turns, Schedule &schedule);
  /// By transfer: the least number of segments before its start.
  std::vector<Id> getFloors() const;

private:
  /// A transfer by its place in its stream.
  struct Ref {
    int8_t stream;
    int32_t index;
  };
  struct Step {
    LineOp op;
    Time work = 0;
    /// The spine's bytes while it runs, and on the border before it.
    int64_t live = 0, border = 0;
    /// Bytes that begin with it, that its end makes owed, and that it frees.
    int64_t begins = 0, owes = 0, frees = 0;
    /// Tails that must have run before it.
    int32_t tailsBefore = 0;
    llvm::SmallVector<Ref, 2> needs;
  };
  struct Item {
    Id transfer = 0;
    /// All of it, and what is left of it when it begins to use the link.
    Time duration = 0, work = 0;
    Id link = 0;
    /// The least number of line ops before it.
    int32_t floor = 0;
    Cause floorCause = Cause::None;
    /// Bytes that its start takes and its end frees.
    int64_t takes = 0, frees = 0;
    /// `takes` is owed since its input is complete.
    bool owed = false;
    /// It has room from its floor on, whoever overtakes it.
    bool reserved = false;
    /// Place among gathers and fetches in the order of first use; -1: neither.
    int32_t rank = -1;
    llvm::SmallVector<Ref, 2> after;
  };
  struct TailStep {
    Id op = 0;
    Time work = 0;
    int64_t frees = 0;
    llvm::SmallVector<Ref, 2> needs;
  };

  void buildLine(const CastPlan &casts);
  void buildTails(llvm::ArrayRef<int> lastTail);
  void buildStreams(llvm::ArrayRef<int> lastTail);
  void rankGathers();
  void findChoices(bool frugal);
  void addFrugalNeeds();
  void buildFloors(const CastPlan &casts, bool frugal);
  std::vector<Id> getFetchFloors(int lead) const;
  void buildBounds();
  int32_t lastNeed(Id t) const;
  bool tailGoesFirst(const MachineState &s, Turn turn) const;
  bool isDone(const MachineState &s, Ref r) const {
    return r.index < s.complete(r.stream);
  }
  const Item &item(Ref r) const { return streams[r.stream][r.index]; }
  bool allDone(const MachineState &s, llvm::ArrayRef<Ref> needs) const {
    for (Ref r : needs)
      if (!isDone(s, r))
        return false;
    return true;
  }
  int64_t spineBytes(const MachineState &s) const {
    return s.running == MachineState::Line ? line[s.line].live : border(s.line);
  }
  int64_t border(int32_t at) const {
    return size_t(at) < line.size() ? line[at].border : 0;
  }
  /// Bytes that are not there for others.
  int64_t taken(const MachineState &s) const {
    return s.bytes + (s.careful ? s.owed : 0);
  }
  bool isReady(const MachineState &s, int stream, bool &memoryOnly);
  bool hasBegun(const MachineState &s, Ref r) const {
    return s.begun[r.stream] > r.index;
  }
  bool leavesRoom(const MachineState &s, const Item &next, int64_t room) const;
  bool hindersCompute(const MachineState &s, int stream) const;
  bool isReadyBesideMemory(const MachineState &s, int stream) const;
  bool areTogether(const MachineState &s) const;
  bool advanceTogether(MachineState &s, Time limit, QueueMask mask);
  bool tryCompute(MachineState &s, Turn turn, bool begun, bool blocked);
  Time getChoicesBusy(const MachineState &s) const;
  Time getStall(const MachineState &s, const Step &step, int pending) const;
  void begin(MachineState &s, int stream);
  void complete(MachineState &s, int stream);
  void endCompute(MachineState &s);
  void startFree(MachineState &s, bool &progress);
  bool advance(MachineState &s, Time limit);
  void idle(MachineState &s, Time limit);

  struct Recorder {
    Schedule &schedule;
    /// Transfers whose input is free, though compute does not know it.
    std::vector<Ref> unknown;
  };
  void recordCompute(const MachineState &s, LineOp op,
                     llvm::ArrayRef<Ref> needs);
  void recordStart(const MachineState &s, const Item &item);
  void learn(Ref ref);

  const ScheduleProblem &problem;
  int64_t budget;
  std::vector<Step> line;
  std::vector<TailStep> tails;
  std::array<std::vector<Item>, kNumStreams> streams;
  /// By transfer: where it is, and getReadyKeys.
  std::vector<Ref> refOf;
  std::vector<Id> readyKey;
  /// Where segments and casts stand in the line.
  std::vector<int32_t> segmentAt, castAt;
  /// By transfer: the last line op before which its readers among the tails
  /// cannot all have run; -1 where they can at once.
  std::vector<int32_t> tailNeed;
  /// Gathers and fetches by rank, and their streams. None overtakes another of
  /// an earlier rank if @inRankOrder.
  std::vector<Ref> byRank;
  llvm::SmallVector<int, 2> ranked;
  bool inRankOrder = false;
  llvm::SmallVector<int, kNumStreams> choices, others;
  bool latencies = false, memoryWaits = false;
  /// The choices keep one link busy, or each other waiting.
  bool oneAfterOther = true;
  /// What compute loses at least beside a transfer, in parts of kFullRate.
  int leastLoss = 0;
  /// rate of queue q under mask m at q * 64 + m.
  std::array<int, kNumQueues * 64> rates;
  /// Work of the line from op i on, of the tails from i on; and from the start
  /// of transfer i of a stream, which goes on alone, to the end of the step.
  std::vector<Time> lineAfter, tailsAfter;
  std::array<std::vector<Time>, kNumStreams> streamAfter;
  /// How long a stream keeps its link from transfer i on (with latencies where
  /// they do not overlap), and the least time that remains behind its last one.
  std::array<std::vector<Time>, kNumStreams> streamWork;
  /// How long transfers from i on are under way.
  std::array<std::vector<Time>, kNumStreams> streamBusy;
  std::array<Time, kNumStreams> streamTail = {};
  Recorder *recorder = nullptr;
};

} // namespace mlir::fsdp::sched

#endif // FSDP_LIB_SCHEDULE_MACHINE_H
