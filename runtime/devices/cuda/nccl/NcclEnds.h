//===- NcclEnds.h - Communicators that are being ended ----------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// ncclCommAbort first tells the work of the communicator on the device to end,
// and returns when no graph holds such work: NCCL counts one reference for each
// captured group (localPersistentRefs, persistentRefs before version 2.26),
// which the destruction of the graph gives back. Of ranks that are threads of
// one process, the last that ends a communicator waits for the graphs of all.
// ncclCommDestroy waits likewise. So communicators are ended by threads of
// their own, while the rank waits for its streams and destroys its graphs. A
// device that has failed itself may not let go of graphs: then the threads wait
// as long as the process lives.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_DEVICES_CUDA_NCCL_NCCLENDS_H
#define FSDP_RT_DEVICES_CUDA_NCCL_NCCLENDS_H

#include "devices/cuda/nccl/NcclApi.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

namespace fsdp::rt {

class NcclEnds {
public:
  /// ncclCommAbort or ncclCommDestroy, which choose the communicator's device
  /// themselves.
  using End = nccl::Error (*)(nccl::Comm comm);
  enum class Outcome {
    Ended,
    /// A device of this process has failed, and they have not ended in
    /// failedNanoseconds.
    Left,
    TimedOut
  };

  /// Begins to end `comm`, which nobody may use any more. The library must stay
  /// open. False: no thread can be started.
  bool begin(End end, nccl::Comm comm);
  /// Returns when all have ended, or they have not within `nanoseconds` in
  /// which no rank of this process was waiting for its streams.
  Outcome wait(int64_t nanoseconds);
  /// Detaches the threads of those that have not ended.
  ~NcclEnds();
  NcclEnds() = default;
  NcclEnds(const NcclEnds &) = delete;

  /// While it lives, a rank of this process waits for its streams: its graphs
  /// are there.
  class Drain {
  public:
    Drain();
    ~Drain();
    Drain(const Drain &) = delete;
  };
  /// Says that a device of this process has failed.
  static void noteFailedDevice();

private:
  std::vector<std::thread> threads_;
  /// Shared with the threads, which may outlive this.
  std::shared_ptr<std::atomic<int>> running_ =
      std::make_shared<std::atomic<int>>(0);
};

} // namespace fsdp::rt

#endif // FSDP_RT_DEVICES_CUDA_NCCL_NCCLENDS_H
