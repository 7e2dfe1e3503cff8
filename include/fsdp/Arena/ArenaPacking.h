//===- ArenaPacking.h - Buffers in one range of memory ----------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Buffers that live at different times share bytes. When they live is asked of
// the order of events: a buffer may follow another one where what begins it
// knows that what ended the other is over, on whatever queue that was.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_ARENA_ARENAPACKING_H
#define FSDP_ARENA_ARENAPACKING_H

#include "fsdp/Cost/CostModel.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/MathExtras.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

namespace mlir::fsdp {

/// Offsets and sizes are multiples of this many bytes.
constexpr int64_t kArenaAlignment = 256;

/// What a buffer of @bytes takes; an empty one has an address, too.
inline int64_t getPlaceBytes(int64_t bytes) {
  return llvm::alignTo(std::max<int64_t>(bytes, 1), kArenaAlignment);
}

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

/// Whether @a and @b need places of their own.
bool areNeededTogether(const EventOrder &events, const ArenaBuffer &a,
                       const ArenaBuffer &b);

/// The heaviest buffers of which each two are needed together: no arena is
/// smaller than their bytes.
std::vector<unsigned> getHeaviestTogether(const EventOrder &events,
                                          llvm::ArrayRef<ArenaBuffer> buffers);
int64_t getArenaBound(const EventOrder &events,
                      llvm::ArrayRef<ArenaBuffer> buffers);

/// Gives buffers that are needed together disjoint places, and returns the
/// bytes needed: largest first, each at the lowest offset that is free, or
/// better. Tries other orders, and searches for a placement as small as
/// getArenaBound where they leave room and the buffers are not too many. What
/// it does depends on its arguments only.
int64_t packBuffers(const EventOrder &events,
                    llvm::MutableArrayRef<ArenaBuffer> buffers);

} // namespace mlir::fsdp

#endif // FSDP_ARENA_ARENAPACKING_H
