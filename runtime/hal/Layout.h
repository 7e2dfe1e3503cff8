//===- Layout.h - What programs of an artifact may name ---------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_HAL_LAYOUT_H
#define FSDP_RT_HAL_LAYOUT_H

#include "core/Dtype.h"
#include "core/Status.h"
#include "fsdp-rt/abi.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace fsdp::rt::hal {

/// Bytes of a rank's two memories.
struct MemorySizes {
  int64_t device = 0;
  int64_t host = 0;

  /// Of an fsdp_rt_memory.
  int64_t of(int32_t memory) const {
    return memory == FSDP_RT_HOST ? host : device;
  }
};

/// How devices add up over ranks, where they can do so in more than one way.
struct SumsOverRanks {
  /// Whether the library that communicates adds up, in its own order.
  bool byLibrary = false;
  /// So many consecutive ranks of the job are on a node that programs were
  /// compiled for; 0: all of them.
  int64_t ranksPerNode = 0;
};

/// What all programs of an artifact share, from its manifest.
struct Layout {
  /// `arena.bytes` and `arena.host_bytes`.
  MemorySizes memory;
  /// `arena.state_bytes` and `arena.host_state_bytes`: what outlives a run of a
  /// program, at the begin of each memory. Inputs and scalars are uploaded
  /// before each run; all else is the run's own.
  MemorySizes state;
  /// Kernel scratch per thread: `arena.scratch_bytes`.
  int64_t scratchBytes = 0;
  /// For every group, in the manifest's order: the world ranks of the instance
  /// that this rank belongs to, strictly increasing.
  std::vector<std::vector<int>> groups;
  /// `events` and `queues` (fsdp_rt_queue, increasing). Of an artifact without,
  /// whose transfers are in the order of the computation: 0 and none.
  int64_t events = 0;
  std::vector<int32_t> queues;
  /// `reduce_dtype`: sums of this type may be rounded to it at each hop among
  /// ranks, if a channel does that.
  std::optional<Dtype> roundedSums;
  /// `nccl`: variables for the environment of libraries that channels use.
  std::map<std::string, std::string> channelVariables = {};
  /// `reduction`.
  SumsOverRanks sums = {};
  /// `reduction_bytes`, by queue.
  std::optional<std::map<int32_t, int64_t>> reductionBytes = std::nullopt;

  bool hasQueues() const { return events > 0 || !queues.empty(); }
  bool hasQueue(int32_t queue) const;
};

/// Events of an artifact, at most.
constexpr int64_t maxEvents = 1 << 20;

/// That world rank `rank` of `ranks` can have this layout: sizes are from 0 to
/// what is beyond any host, events and queues go together, and the rank is in
/// its groups.
Status checkLayout(const Layout &layout, int rank, int ranks);

} // namespace fsdp::rt::hal

#endif // FSDP_RT_HAL_LAYOUT_H
