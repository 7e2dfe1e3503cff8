//===- Contention.h - What runs beside a queue slows it down ----*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_LIB_SCHEDULE_CONTENTION_H
#define FSDP_LIB_SCHEDULE_CONTENTION_H

#include "fsdp/Cost/CostModel.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"

#include <array>
#include <vector>

namespace mlir::fsdp::sched {

/// An operation: the least time before it, its own, and the least behind it.
struct Job {
  Time head, work, tail;
};

/// The transfers of a link: what it works on, one after the other, and each of
/// its queues, with latencies, which run beside what others of its queues do.
/// Something is under way on it at least as long as any of these takes.
struct LinkJobs {
  std::vector<Job> work;
  std::array<std::vector<Job>, kNumQueues> queues;

  void sortByHead();
  QueueMask getQueues() const;
};

/// What runs beside a queue, in one or several lists of LinkJobs, each by head.
struct Beside {
  llvm::SmallVector<const std::vector<Job> *, 4> lists;
  QueueMask queues;
};

void sortByHead(std::vector<Job> &jobs);

/// Each link that is busy, but for those that queues of @except use; a few of
/// them say most.
llvm::SmallVector<Beside> getBusyLinks(llvm::ArrayRef<LinkJobs> links,
                                       QueueMask except = 0);

/// A queue loses a share of its speed while others run. From any time on, and
/// for each of @ends: the @slowed operations, of @queue, that cannot begin
/// before it and have a tail of @end or more are still to do, and so are the
/// @others, as far as they cannot be over by then. Before the tail they run
/// beside the queue, or it waits. @slowed: by head. At least @most, what is
/// known already.
Time getSlowed(const CostModel &cost, llvm::ArrayRef<Job> slowed, Queue queue,
               llvm::ArrayRef<Beside> others, llvm::ArrayRef<Time> ends,
               Time most = 0);

/// Some of the tails of @jobs, the shortest among them.
llvm::SmallVector<Time> getTails(llvm::ArrayRef<Job> jobs);

} // namespace mlir::fsdp::sched

#endif // FSDP_LIB_SCHEDULE_CONTENTION_H
