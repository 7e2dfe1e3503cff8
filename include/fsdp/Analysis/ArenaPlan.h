//===- ArenaPlan.h - Where every value of a step lies -----------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One arena per rank, in three segments: state (what one step leaves for the
// next, and the batch), communicated (what collectives send and receive) and
// transient (everything else). Values whose lives do not overlap share bytes.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_ANALYSIS_ARENAPLAN_H
#define FSDP_ANALYSIS_ARENAPLAN_H

#include "fsdp/Analysis/ArenaPurpose.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/MapVector.h"

#include <array>

namespace mlir::fsdp {

/// Offsets and sizes are multiples of this many bytes.
constexpr int64_t kArenaAlignment = 256;

/// A piece of memory and the time it is needed. `begin` and `end` number the
/// ops of the step; both are included.
struct ArenaBuffer {
  int64_t size = 0;
  int begin = 0, end = 0;
  /// Result, from the start of its segment.
  int64_t offset = 0;
};

/// Gives overlapping buffers disjoint places. Largest first, each at the lowest
/// offset that fits. Returns the bytes needed.
int64_t placeBuffers(MutableArrayRef<ArenaBuffer> buffers);

/// The heaviest set of buffers that are alive at once: no arena is smaller.
int64_t getPeak(ArrayRef<ArenaBuffer> buffers);

struct ArenaPlan {
  /// Byte offset of each value from the start of the arena. Values of one
  /// offset may be the same memory (views, parts of a pack, tied results).
  llvm::DenseMap<Value, int64_t> offsets;
  std::array<int64_t, 3> segmentOffset = {}, segmentBytes = {};
  /// Bytes by purpose at the moment when most are in use.
  std::array<int64_t, 6> atPeak = {};
  int64_t totalBytes = 0;
};

/// Plans the arena of @step, which must be a straight list of launches,
/// collectives, packs, views and checks.
ArenaPlan planArena(func::FuncOp step);

} // namespace mlir::fsdp

#endif // FSDP_ANALYSIS_ARENAPLAN_H
