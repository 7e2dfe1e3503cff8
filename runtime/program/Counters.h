//===- Counters.h - What a rank has done ------------------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_PROGRAM_COUNTERS_H
#define FSDP_RT_PROGRAM_COUNTERS_H

#include "hal/Device.h"
#include "hal/Traffic.h"

#include <cstdint>

namespace fsdp::rt {

/// Nanoseconds of wall time on the rank's own thread. The parts, but for
/// `transfers`, which run beside them, add up to `total`.
struct StepTimes : hal::RunTimes {
  /// Copies, checks and the program's own order.
  int64_t other = 0;
  int64_t total = 0;

  StepTimes &operator+=(const StepTimes &step) {
    RunTimes::operator+=(step);
    other += step.other;
    total += step.total;
    return *this;
  }
};

/// Traffic: totals over all steps.
struct Counters : Traffic {
  /// Steps that ended without a failure.
  int64_t steps = 0;
  StepTimes lastStep;
  StepTimes allSteps;
};

} // namespace fsdp::rt

#endif // FSDP_RT_PROGRAM_COUNTERS_H
