//===- ArenaPlan.h - Where every value of a step lies -----------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One arena per rank: state (what one step leaves for the next, and the batch),
// which never moves, and behind it one range for all else, where values whose
// lives the order of events keeps apart share bytes. That range is cut in two:
// communicated, the lowest bytes that hold all that collectives send and
// receive (but for the state), and transient, what lies above. What is
// offloaded shares an arena of its own, in the host's memory.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_ANALYSIS_ARENAPLAN_H
#define FSDP_ANALYSIS_ARENAPLAN_H

#include "fsdp/Analysis/ArenaPacking.h"
#include "fsdp/Analysis/ArenaPurpose.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/MapVector.h"

#include <array>

namespace mlir::fsdp {

struct ArenaPlan {
  /// Byte offset of each value from the start of its arena: of the host's one
  /// for what is of !fsdp.host. Values of one offset may be the same memory
  /// (views, parts of a pack, tied results).
  llvm::DenseMap<Value, int64_t> offsets;
  std::array<int64_t, 3> segmentOffset = {}, segmentBytes = {};
  /// Bytes by purpose: the state, and the heaviest set of values that are all
  /// needed at once.
  std::array<int64_t, 6> atPeak = {};
  /// Of what moves: how many buffers, and that set's bytes. Less is impossible.
  int64_t bufferCount = 0, bound = 0;
  int64_t totalBytes = 0;
  /// Of the arena in the host's memory.
  int64_t hostBytes = 0;
};

/// Plans the arena of @step, which must be a straight list of launches,
/// collectives, packs, views and checks. A @draft is not packed as well as can
/// be, and has no bound: for those who ask what shares memory. Behind each
/// buffer, as aligned, @border bytes belong to nobody (a multiple of
/// kArenaAlignment).
ArenaPlan planArena(func::FuncOp step, bool draft = false, int64_t border = 0);

} // namespace mlir::fsdp

#endif // FSDP_ANALYSIS_ARENAPLAN_H
