//===- RunRecords.h - Times of a run's calls --------------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The device stamps events between calls, and tells their distances when a run
// is over.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_DEVICES_CUDA_RUN_RUNRECORDS_H
#define FSDP_RT_DEVICES_CUDA_RUN_RUNRECORDS_H

#include "core/Status.h"
#include "devices/cuda/driver/CudaContext.h"
#include "hal/Device.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace fsdp::rt {

class RunRecords {
public:
  /// Makes the events of a program, once.
  Status prepare(const CudaContext &context, const hal::Recording &recording);

  /// Before the first call of a run, whose streams are idle.
  Status begin(cu::Stream compute);
  /// Behind call `index` on the stream of queue 0.
  Status mark(size_t index, cu::Stream compute);
  /// Around the transfers of a start, `index`, on another queue.
  Status beginTransfer(size_t index, cu::Stream stream);
  Status endTransfer(size_t index, cu::Stream stream);

  /// Of a run that is complete: gives its records to `log`, a transfer's where
  /// queue 0 waited for it, and adds up their times.
  Status report(const hal::Recording &recording, hal::RunLog &log,
                hal::RunTimes &times);

private:
  /// In the host's clock.
  Status timeOf(const CudaEvent &event, int64_t &nanoseconds) const;
  Status record(cu::Event event, cu::Stream stream) const;
  Status reportTransfer(const hal::Recording &recording, size_t index,
                        hal::RunLog &log, hal::RunTimes &times) const;

  const CudaContext *context_ = nullptr;
  /// One before the first call, and one after each.
  std::vector<CudaEvent> marks_;
  /// Two for each start on a queue; where they are, by call.
  std::vector<CudaEvent> transfers_;
  std::vector<size_t> transferOf_;
  /// When the first mark was recorded.
  int64_t origin_ = 0;
};

} // namespace fsdp::rt

#endif // FSDP_RT_DEVICES_CUDA_RUN_RUNRECORDS_H
