//===- EventState.h - What a search of events reads -------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A step as EventSearch.cpp reads it, and what can be the case in it.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_LIB_SCHEDULE_EVENTSTATE_H
#define FSDP_LIB_SCHEDULE_EVENTSTATE_H

#include "EventSearch.h"

#include "llvm/ADT/DenseMapInfo.h"
#include "llvm/ADT/Hashing.h"

#include <array>

namespace mlir::fsdp::sched::events {

/// Streams are the queues without compute, counted from 0.
constexpr int kStreams = kNumQueues - 1;
constexpr Time kForever = std::numeric_limits<Time>::max() / 2;

/// What is over next, if not a stream.
constexpr int kCompute = -1, kNothing = -2;

template <typename T>
using PerStream = std::array<T, kStreams>;

/// What has begun and what is over.
struct Key {
  /// Segments that are over.
  int32_t segments = 0;
  /// What compute runs; Cast + s: a cast for stream s.
  enum : int32_t { Nothing, Segment, Tail, Cast };
  int32_t running = Nothing;
  PerStream<int32_t> begun = {};
  /// Bit s: the last transfer of stream s that has begun is under way.
  uint32_t underWay = 0;
  /// Of what is left of it; 0 where that does not tell states apart.
  uint64_t moment = 0;

  bool isUnderWay(int s) const { return underWay >> s & 1; }
  int32_t over(int s) const { return begun[s] - isUnderWay(s); }
  bool operator==(const Key &o) const {
    return segments == o.segments && running == o.running && begun == o.begun &&
           underWay == o.underWay && moment == o.moment;
  }
};

struct KeyInfo {
  static Key getEmptyKey() { return {-1, 0, {}, 0, 0}; }
  static Key getTombstoneKey() { return {-2, 0, {}, 0, 0}; }
  static unsigned getHashValue(const Key &k) {
    return llvm::hash_combine(
        k.segments, k.running, k.underWay, k.moment,
        llvm::hash_combine_range(k.begun.begin(), k.begun.end()));
  }
  static bool isEqual(const Key &a, const Key &b) { return a == b; }
};

/// What is left of what runs: parts of kFullRate times picoseconds; 0 of what
/// does not.
struct Left {
  int64_t compute = 0;
  PerStream<int64_t> latency = {}, work = {};
};

/// A way to a state: how early, and what floats has begun.
struct Label {
  Key key;
  /// The least score goes on first: the bound, and more for what is left.
  Time now = 0, bound = 0, score = 0;
  /// When what is running is over; 0 if nothing is.
  Time computeEnd = 0;
  /// Of what is under way: when it begins to work on its link, if nothing else
  /// does, and when it is over; 0 where nothing is.
  PerStream<Time> workFrom = {}, end = {};
  /// Of simulated ways only.
  Left left;
  int32_t tails = 0;
  PerStream<int32_t> casts = {};
  /// Without the spine's.
  int64_t bytes = 0;
  int32_t parent = -1, depth = 0;
};

struct Item {
  Id transfer = 0, link = 0;
  Time latency = 0, work = 0, tail = 0;
  /// Segments that must be over, and why, and casts of its stream.
  int32_t floor = 0;
  Cause floorCause = Cause::Data;
  int32_t casts = 0;
  /// Bytes that its begin takes and its end frees.
  int64_t takes = 0, frees = 0;
  /// Transfers that must be over: stream and number.
  llvm::SmallVector<std::pair<int, int32_t>, 2> after;
};

/// What does not change in a search.
struct EventStep {
  EventStep(const ScheduleProblem &p, const LeastTails &behind);

  /// What stream @s has begun last.
  const Item &getLast(const Key &k, int s) const {
    return streams[s][k.begun[s] - 1];
  }
  int64_t spineBytes(const Key &k) const;
  /// Tails whose transfers are over.
  int32_t getTailsReady(const Key &k) const;
  /// Compute has done what the next transfer of stream @s needs.
  bool isReady(const Label &x, int s) const;
  bool isEnd(const Label &x) const;

  const ScheduleProblem &p;
  PerStream<std::vector<Item>> streams;
  /// By transfer: its stream and its place there.
  std::vector<std::pair<int, int32_t>> placeOf;
  /// By segment: transfers that must be over, bytes that its begin takes and
  /// its end frees, work from it on.
  std::vector<PerStream<int32_t>> needs;
  std::vector<int64_t> takes, frees;
  std::vector<Time> spineAfter;
  /// Casts in the order of their transfers, and their work from each on.
  PerStream<std::vector<Id>> casts;
  PerStream<std::vector<Time>> castsAfter;
  /// Tails in order, their work from each on, what so many free, and how many
  /// so many complete transfers of a stream let run.
  std::vector<Id> tails;
  std::vector<Time> tailsAfter;
  std::vector<int64_t> tailsFreed;
  PerStream<std::vector<int32_t>> tailsReady;
  /// From each transfer of a stream on: work by link, and the least time
  /// behind any of them.
  PerStream<std::vector<llvm::SmallVector<Time, 4>>> linkWork;
  PerStream<std::vector<Time>> leastTail;

private:
  void buildStreams(const LeastTails &behind);
  void buildCasts();
  void buildTails();
};

} // namespace mlir::fsdp::sched::events

#endif // FSDP_LIB_SCHEDULE_EVENTSTATE_H
