//===- Counters.h - What a rank has done ------------------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_CORE_COUNTERS_H
#define FSDP_RT_CORE_COUNTERS_H

#include <array>
#include <cstdint>
#include <vector>

namespace fsdp::rt {

/// The collectives of abi.def, in its order.
enum class CollectiveKind : int {
  AllGather = 0,
  ReduceScatter = 1,
  AllReduce = 2,
  Broadcast = 3,
};
constexpr int numCollectiveKinds = 4;

/// The manifest's name of a kind: "all_gather", ...
const char *collectiveName(CollectiveKind kind);

/// Bytes that one rank of a group of `ranks` must receive (or send) for one
/// collective of `count` elements of `elementBytes` bytes:
///   all_gather, reduce_scatter   (ranks - 1) * count
///   all_reduce                   2 * (ranks - 1) * ceil(count / ranks)
///   broadcast                    count, and nothing on the root
/// elements each.
int64_t collectiveBytes(CollectiveKind kind, int64_t ranks, int64_t count,
                        int64_t elementBytes, bool isRoot);

struct CollectiveCounter {
  int64_t calls = 0;
  int64_t bytes = 0;
};

/// Nanoseconds of wall time on the rank's own thread. The parts add up to
/// `total`.
struct StepTimes {
  int64_t matmul = 0;
  int64_t kernels = 0;
  /// Moving and adding the bytes of collectives and copies to the host.
  int64_t communication = 0;
  /// Blocked in a collective until the other ranks had come to it, or done, and
  /// in waits for transfers.
  int64_t waiting = 0;
  /// Copies, checks and the step's own code.
  int64_t other = 0;
  int64_t total = 0;
  /// What the queues' transfers took, each by itself: beside the step, and no
  /// part of `total`.
  int64_t transfers = 0;
};

struct Counters {
  /// Steps that ended without a failure.
  int64_t steps = 0;
  StepTimes lastStep;
  StepTimes allSteps;
  /// Copies to the host and back: totals over all steps.
  CollectiveCounter offloads, reloads;
  /// groups[g][kind]: totals over all steps, by the manifest's group.
  std::vector<std::array<CollectiveCounter, numCollectiveKinds>> groups;
};

} // namespace fsdp::rt

#endif // FSDP_RT_CORE_COUNTERS_H
