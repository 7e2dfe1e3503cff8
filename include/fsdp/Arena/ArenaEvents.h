//===- ArenaEvents.h - What comes before what in a step ---------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_ARENA_ARENAEVENTS_H
#define FSDP_ARENA_ARENAEVENTS_H

#include "fsdp/Cost/CostModel.h"

#include "llvm/ADT/ArrayRef.h"

#include <array>
#include <cstdint>
#include <vector>

namespace mlir::fsdp {

/// What comes before what in a step. Ops are numbered in the order in which
/// they are issued.
class EventOrder {
public:
  /// An op on compute. Returns its number, as the next two do.
  int addCompute();
  /// A transfer behind all compute so far, its queue and the starts @after.
  int addStart(Queue queue, llvm::ArrayRef<int> after);
  /// Compute goes on when the transfer @start is over.
  int addWait(int start);

  int size() const { return ops.size(); }
  /// Whether @earlier is over when @later begins.
  bool isBefore(int earlier, int later) const {
    return ops[later].known[ops[earlier].queue] >= ops[earlier].count;
  }
  bool isStart(int op) const { return ops[op].queue != 0; }
  Queue getQueue(int op) const { return Queue(ops[op].queue); }
  /// From which op on everything knows that @op is over; beyond all
  /// ops if nothing waits for it.
  int getKnownFrom(int op) const { return ops[op].knownFrom; }
  /// From which op of compute on both are known to be over, one of them a
  /// start.
  int getJoin(int a, int b) const;
  /// What @op comes behind, other than compute's last op and that of its queue:
  /// the starts in `after`, the start that it waits for.
  llvm::ArrayRef<int> getBehind(int op) const { return ops[op].behind; }

private:
  /// Per queue, how many of its ops are over.
  using Clock = std::array<int, kNumQueues>;
  struct Op {
    unsigned queue = 0;
    int count = 0;
    Clock known = {};
    int knownFrom = 0;
    std::vector<int> behind;
  };
  static void join(Clock &clock, const Clock &other);
  /// What is known behind @op.
  Clock getClock(int op) const;

  std::vector<Op> ops;
  /// Starts that compute does not know to be over.
  std::vector<int> pending;
  Clock compute = {};
  std::array<Clock, kNumQueues> queues = {};
  std::array<int, kNumQueues> counts = {};
};

/// A piece of memory and its life: no op touches it before op `begin` begins or
/// after op `end` is over.
struct ArenaBuffer {
  int64_t size = 0;
  int begin = 0, end = 0;
  /// Result: where it lies.
  int64_t offset = 0;
};

/// The life of what the ops @touches, in issue order, read and write. What
/// touches it first is what writes it: whatever else does comes behind that, or
/// the step is wrong wherever things lie. What touches it last may be several
/// queues; then it lives until compute knows of all.
ArenaBuffer getLife(const EventOrder &events, llvm::ArrayRef<int> touches);

} // namespace mlir::fsdp

#endif // FSDP_ARENA_ARENAEVENTS_H
