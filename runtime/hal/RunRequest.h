//===- RunRequest.h - What one run is asked for -----------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What differs from run to run beside the inputs is few numbers: scalars go in
// with a run, and results come out with it, so that a device which runs ahead
// needs no call of the host between two runs.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_HAL_RUNREQUEST_H
#define FSDP_RT_HAL_RUNREQUEST_H

#include "core/Status.h"
#include "hal/CallRecord.h"
#include "hal/Memory.h"

#include <cstdint>
#include <string>
#include <vector>

namespace fsdp::rt::hal {

/// Takes records of what has run, on the device's caller's thread.
class RunLog {
public:
  virtual ~RunLog() = default;
  virtual void record(const CallRecord &call) = 0;
};

/// An element in the device's memory, of at most 8 bytes.
struct RunNumber {
  int64_t offset = 0, bytes = 0;
  char value[8] = {};
};

struct RunRequest {
  /// Null: nobody wants records.
  RunLog *log = nullptr;
  /// What the message of a failing check adds to its own text.
  std::string checkNote;
  /// They take their places before the run's first call.
  std::vector<RunNumber> scalars;
  /// As the run's last call left them: the device fills the values in when the
  /// run is over.
  std::vector<RunNumber> results;
  /// A device with several pending runs sets it when the run is over and
  /// nothing in it failed.
  bool isComplete = false;
};

/// Refuses a number that is no element in a memory of `size` bytes.
Status checkNumbers(const RunRequest &request, int64_t size);

/// By uploads and downloads of `memory`, the device's, while no run is pending.
Status placeScalars(const RunRequest &request, Memory &memory);
Status fetchResults(RunRequest &request, const Memory &memory);

} // namespace fsdp::rt::hal

#endif // FSDP_RT_HAL_RUNREQUEST_H
