//===- ScheduleProblem.h - What is to be ordered and placed -----*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A step without its IR. The scheduler, the lower bound, the exact search and
// the simulation read it, so that all four speak of the same freedom:
//
//   - The spine (forward, loss, backward) keeps its order.
//   - Casts that feed a transfer run anywhere before it, those that feed one
//     queue in the order of getCastOrder; tails (norm, clipping,
//     update) anywhere behind the transfers that they read, among each other in
//     the order of getTailOrder.
//   - Each queue issues its transfers in the order of getQueueOrder.
//   - A transfer begins when its queue is free, all compute that was issued
//     before it is done, and the transfers that it comes after are complete.
//
// Times are picoseconds (one operation stays below 700 seconds), sizes bytes.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_SCHEDULE_SCHEDULEPROBLEM_H
#define FSDP_SCHEDULE_SCHEDULEPROBLEM_H

#include "fsdp/Cost/CostModel.h"

#include "llvm/ADT/ArrayRef.h"

#include <limits>
#include <string>
#include <vector>

namespace mlir::fsdp::sched {

/// A place in one of the vectors below.
using Id = int32_t;

/// What a transfer costs; links are numbered as the maker of the problem likes.
struct LinkCost {
  Time latency = 0, work = 0;
  Id link = 0;
  Time total() const { return latency + work; }
};

/// Kernels of the spine between two places where something happens.
struct SpineSegment {
  Time work = 0;
  /// Most bytes of activations, gradients and workspaces while it runs. What
  /// lives across the border of two segments is counted in both. Less those
  /// parts of fetched results that nothing reads any more, so it may be below
  /// 0.
  int64_t live = 0;
};

/// A kernel that is not bound to a place in the spine.
struct FloatingOp {
  Time work = 0;
  /// Cast: the transfer that it feeds. Tail: -1.
  Id before = -1;
  /// Tail: transfers that it reads.
  llvm::SmallVector<Id, 2> after;
  /// Tail: floating ops that it reads.
  llvm::SmallVector<Id, 2> afterFloating;
  /// Cast: its result, alive until the transfer is complete.
  int64_t heldBytes = 0;
};

struct Transfer {
  LinkCost cost;
  Queue queue = Queue::AllGather;
  /// The segment that completes its input; -1 if that is there from the start.
  Id ready = -1;
  /// Transfers that it reads: reductions before a reduction, the copy to the
  /// host before a fetch, the fetch of a shard before its gather, the gather of
  /// a secondary shard before those of the whole.
  llvm::SmallVector<Id, 1> after;
  /// First and last segment that read its result; -1: tails only. A gather
  /// that reads a fetch or another gather counts as its reader at its own
  /// `firstUse`.
  Id firstUse = -1, lastUse = -1;
  /// Its result: from its start to the end of `lastUse`, or to the last tail
  /// that reads it. 0 where it works in place.
  int64_t dstBytes = 0;
  /// What only tails read of these is also read behind all of them: they stay
  /// to the end.
  bool stays = false;
  /// Its input: from the begin of segment `srcBegin` to its own completion.
  int64_t srcBytes = 0;
  Id srcBegin = -1;
};

/// What FSDP's options say; -1 is no limit.
struct Limits {
  /// Gathers issued ahead of the unit that computes; of backward also fetches
  /// from the host.
  int forwardPrefetch = -1, backwardPrefetch = -1;
  /// backward_prefetch=post: a gather waits until the gathered unit before it
  /// is done, not until it begins. Means something with backwardPrefetch = 1.
  bool backwardPost = false;
  /// limit_all_gathers: so many of the units that are freed on the way may be
  /// gathered at once (FSDP has 2).
  int inFlight = -1;
  /// An all_reduce keeps the next reduce_scatter waiting, as on one stream.
  bool allReduceOnReduceQueue = false;
};

constexpr int64_t kNoBudget = std::numeric_limits<int64_t>::max() / 4;

struct ScheduleProblem {
  std::vector<SpineSegment> spine;
  std::vector<FloatingOp> floating;
  std::vector<Transfer> transfers;
  /// The first segment of backward.
  Id backwardBegin = 0;
  int numLinks = 1;
  /// Bytes that are in use all the time.
  int64_t fixedBytes = 0;
  int64_t budget = kNoBudget;
  /// Bytes that an order leaves free wherever it can do without them. Packing
  /// leaves gaps: what is full at a few moments only packs without.
  int64_t room = 0;
  Limits limits;
  /// Collectives of all queues keep the order in which they are issued, one
  /// after the other. Schedules are compared by it; what searches them does not
  /// know it.
  bool ordersCollectives = false;
  /// Asked for rates only. Null: nothing slows anything down.
  const CostModel *cost = nullptr;
};

/// The first rule that @problem breaks, or an empty string.
std::string checkProblem(const ScheduleProblem &problem);

/// Bytes of the spine that are alive when all segments before @segment are done
/// and it has not begun.
int64_t getBorderBytes(const ScheduleProblem &problem, Id segment);

/// For each transfer the casts that feed it.
std::vector<llvm::SmallVector<Id, 1>>
getCastsOf(const ScheduleProblem &problem);

/// Transfers of @queue in the order in which they are issued: gathers and
/// fetches by first use, the others by when their input is complete.
std::vector<Id> getQueueOrder(const ScheduleProblem &problem, Queue queue);

/// Casts for @queue in the order in which they run: that of the transfers that
/// they feed.
std::vector<Id> getCastOrder(const ScheduleProblem &problem, Queue queue);

/// For each transfer the last segment that its data comes from, directly or
/// through others; -1: none.
std::vector<Id> getReadyKeys(const ScheduleProblem &problem);

/// Tails in the order in which they run.
std::vector<Id> getTailOrder(const ScheduleProblem &problem);

/// The same of each tail, by place in @order, which is getTailOrder's: one is
/// held up by what any before it reads.
std::vector<Id> getTailKeys(const ScheduleProblem &problem,
                            llvm::ArrayRef<Id> order);

/// For each transfer the least number of segments before it, as its input and
/// the limits say; memory is not asked.
struct PlaceFloor {
  std::vector<Id> place;
  /// The place is later than the input demands.
  std::vector<bool> fromLimit;
};
PlaceFloor getPlaceFloor(const ScheduleProblem &problem);

/// For each transfer the transfers that come before it in its data or, with
/// allReduceOnReduceQueue, in its order.
std::vector<llvm::SmallVector<Id, 2>>
getPredecessors(const ScheduleProblem &problem);

/// For each transfer whose result only tails read the place in getTailOrder of
/// the last one that does, directly or through a transfer in place; the number
/// of tails if none does (the result outlives the step); -1 for the others.
std::vector<int> getLastTail(const ScheduleProblem &problem);

//===----------------------------------------------------------------------===//
// The answer
//===----------------------------------------------------------------------===//

/// Why something did not begin earlier.
enum class Cause { None, Data, QueueBusy, LinkBusy, Memory, Limit };

/// A segment or a floating op on the compute queue.
struct LineOp {
  bool floating = false;
  Id id = 0;
  bool operator==(const LineOp &o) const {
    return floating == o.floating && id == o.id;
  }
};

struct Schedule {
  /// The compute queue. (One line instead of places of floating ops in the
  /// spine: whether a start stands before or behind an update that frees its
  /// memory must be said.)
  std::vector<LineOp> line;
  /// Starts in issue order; `place` does not fall along it.
  std::vector<Id> issue;
  /// Per transfer: how many ops of `line` come before its start.
  std::vector<Id> place;
  /// Per transfer: the op of `line` before which compute waits for it;
  /// line.size(): at the end.
  std::vector<Id> known;
  /// Per transfer: what else it comes after, besides its data.
  std::vector<llvm::SmallVector<Id, 2>> after;
  /// Per transfer: why its place is not earlier.
  std::vector<Cause> placeCause;
  /// What the simulation gives.
  Time makespan = 0;
  /// No order of the same problem takes less, as far as its maker knows.
  Time bound = 0;
  /// Bytes at the worst moment that any timing of this order can bring about.
  int64_t peak = 0;

  /// Whether the same is issued in the same order, for whatever causes.
  bool isSameOrder(const Schedule &o) const {
    return line == o.line && issue == o.issue && place == o.place &&
           known == o.known && after == o.after;
  }
};

} // namespace mlir::fsdp::sched

#endif // FSDP_SCHEDULE_SCHEDULEPROBLEM_H
