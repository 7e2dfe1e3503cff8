//===- StepArena.h - Where the values of a step lie -------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The one place that says what a step's arena takes: fsdp-plan-arena writes
// what it finds into the IR; planners ask it of orders that nobody has made.
//
// One arena per rank: the states of all programs of the artifact, whose places
// are given; the program's inputs (the batch and the caller's numbers); and one
// range for all else, where buffers whose lives the order of events keeps apart
// share bytes. That range is cut in two: communicated, the lowest bytes that
// hold all that collectives send and receive (but for states and inputs), and
// transient, what lies above. What is offloaded shares an arena of its own, in
// the host's memory.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_ARENA_STEPARENA_H
#define FSDP_ARENA_STEPARENA_H

#include "fsdp/Schedule/ArenaPurpose.h"
#include "fsdp/Schedule/StepProgram.h"

#include <array>

namespace mlir::fsdp {

struct ArenaOptions {
  /// Not packed, one buffer behind the other, and without a bound: for those
  /// who ask how large things are and what is one buffer.
  bool isDraft = false;
  /// Bytes behind each buffer, as aligned, that belong to nobody: a multiple of
  /// kArenaAlignment.
  int64_t border = 0;
};

/// What an arena takes. Bytes.
struct ArenaSummary {
  std::array<int64_t, kSegmentNames.size()> segmentOffset = {},
                                            segmentBytes = {};
  /// By purpose: states, inputs, the workspace, and the heaviest set of buffers
  /// that are all needed at once.
  std::array<int64_t, kPurposeNames.size()> atPeak = {};
  /// Of what moves: how many buffers, and that set's bytes. Less is impossible.
  int64_t bufferCount = 0, bound = 0;
  int64_t totalBytes = 0;
  /// Of the arena in the host's memory.
  int64_t hostBytes = 0;
};

/// Gives the buffers of @program, as shareBuffers leaves them, their places.
ArenaSummary placeBuffers(sched::StepProgram &program,
                          const ArenaOptions &options = {});

} // namespace mlir::fsdp

#endif // FSDP_ARENA_STEPARENA_H
