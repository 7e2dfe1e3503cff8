//===- Timeline.h - What happens when ---------------------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The one engine that plays programs: ops in issue order under the rules of
// StepProgram.h, event by event. Transfers that work on one link at once share
// it evenly, and the cost model's rates slow down what runs side by side. All
// ranks do the same, so one stands for all.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_SCHEDULE_TIMELINE_H
#define FSDP_SCHEDULE_TIMELINE_H

#include "fsdp/Schedule/StepProgram.h"

#include "llvm/ADT/ArrayRef.h"

namespace mlir::fsdp::sched {

struct TimedOp {
  enum Kind { Compute, Start, Wait } kind = Compute;
  Queue queue = Queue::Compute;
  /// Compute: how long it takes alone.
  Time work = 0;
  /// Start: how long its transfer takes alone.
  LinkCost cost;
  /// Start: earlier starts whose transfers it comes after.
  llvm::SmallVector<Id, 2> after;
  /// Start: the collective before it, which it also comes after, where those of
  /// all queues keep the program's order. -1: none, or they do not.
  Id previous = -1;
  /// Start: earlier ops that make what it sends. They do not order it (compute
  /// before it and `after` do), but say from when on it waited.
  llvm::SmallVector<Id, 2> inputs;
  /// Wait: the start.
  Id start = -1;
};

struct TimedProgram {
  std::vector<TimedOp> ops;
  /// Asked for rates only. Null: nothing slows anything down.
  const CostModel *cost = nullptr;
};

/// What ended last before an op could begin.
enum class Blocker {
  None,
  /// What made its input.
  Input,
  /// Compute that was issued before it.
  Order,
  /// The transfer before it on its queue.
  Queue,
  /// A transfer in `after` on the same link.
  Link,
  /// Another one in `after`: it holds the memory until then.
  Memory,
  /// Compute: a transfer that it waited for.
  Wait
};

struct OpSpan {
  /// Of a start: its transfer's. Of a wait: from when compute had nothing else
  /// to do to when the event came.
  Time begin = 0, end = 0;
  /// Duration if nothing else ran.
  Time alone = 0;
  /// Transfer: how long its input lay ready. Compute: how long it waited.
  Time stall = 0;
  Blocker why = Blocker::None;
  Id blocker = -1;
};

struct Timeline {
  std::vector<OpSpan> spans;
  Time step = 0;
  /// Compute alone; the step less that is exposed.
  Time compute = 0, exposed = 0;
  /// Exposed time by start, without rest: what compute waited for, back along
  /// the chain of what each transfer waited for, and what transfers took from
  /// compute beside them.
  std::vector<Time> exposedBy;
  /// Of that, what the transfer took from compute beside it.
  std::vector<Time> slowedBy;
};

Timeline play(const TimedProgram &program);

/// @transfer as the cost model knows it; @placements: of its program's groups.
TransferKey makeTransferKey(const StepTransfer &transfer,
                            llvm::ArrayRef<GroupPlacement> placements);

/// @program with the times of @cost; @placements and its groups are in one
/// order. Rates are @cost's, which must outlive the result.
TimedProgram addTimes(const StepProgram &program, const CostModel &cost,
                      llvm::ArrayRef<GroupPlacement> placements);

/// Bytes in use by purpose, from a time on, in the order of time.
struct MemoryPoint {
  Time time = 0;
  std::array<int64_t, kPurposeNames.size()> bytes = {};
  int64_t getTotal() const;
};

/// The device's memory: from when a buffer's first writer begins to when its
/// last reader ends; arguments and results from the begin or to the end of the
/// step.
std::vector<MemoryPoint> getMemory(const StepProgram &program,
                                   const Timeline &timeline);
/// The most bytes that are in use in the host's memory.
int64_t getHostPeak(const StepProgram &program, const Timeline &timeline);
/// The point with most in use.
MemoryPoint getMemoryPeak(llvm::ArrayRef<MemoryPoint> memory);

} // namespace mlir::fsdp::sched

#endif // FSDP_SCHEDULE_TIMELINE_H
