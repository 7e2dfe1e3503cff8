//===- Counters.h - What a rank has done ------------------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_CORE_COUNTERS_H
#define FSDP_RT_CORE_COUNTERS_H

#include "core/Transfers.h"

#include <array>
#include <cstdint>
#include <vector>

namespace fsdp::rt {

struct TransferCounter {
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
  TransferCounter offloads, reloads;
  /// groups[g][kind]: totals over all steps, by the manifest's group.
  std::vector<std::array<TransferCounter, numTransferKinds>> groups;
};

} // namespace fsdp::rt

#endif // FSDP_RT_CORE_COUNTERS_H
