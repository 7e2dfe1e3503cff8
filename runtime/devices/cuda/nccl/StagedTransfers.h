//===- StagedTransfers.h - Collectives through the host's memory *- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_DEVICES_CUDA_NCCL_STAGEDTRANSFERS_H
#define FSDP_RT_DEVICES_CUDA_NCCL_STAGEDTRANSFERS_H

#include "core/Status.h"
#include "devices/cuda/driver/CudaContext.h"
#include "devices/cuda/driver/CudaMemory.h"
#include "devices/cuda/driver/CudaWork.h"
#include "hal/Channel.h"
#include "hal/Layout.h"
#include "hal/Recording.h"
#include "hal/World.h"

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

namespace fsdp::rt {

/// The transfers of one start among ranks, by a host channel: parts are copied
/// to pinned memory, exchanged there, and copied back.
class StagedExchange final : public CudaWork {
public:
  StagedExchange(World &world, hal::HostChannel &channel,
                 const CudaContext &context)
      : world_(world), channel_(channel), context_(context) {}

  /// `src` and `dst` lie on the device; `what` has their places in pinned
  /// memory.
  void add(const hal::HostCollective &what, cu::Pointer src, cu::Pointer dst);

  /// Blocks the host until the collectives are over: not for graphs. All ranks
  /// call it in the program's order.
  Status enqueue(cu::Stream stream) const override;

private:
  struct Part {
    hal::HostCollective what;
    cu::Pointer src, dst;
    size_t srcBytes, dstBytes;
  };
  Status waitFor(cu::Stream stream) const;

  World &world_;
  hal::HostChannel &channel_;
  const CudaContext &context_;
  std::vector<Part> parts_;
};

/// A rank's host channels, and pinned memory for what goes over them.
class StagedTransfers {
public:
  /// All must outlive it.
  StagedTransfers(World &world, const CudaContext &context,
                  const hal::Layout &layout)
      : world_(world), context_(context), layout_(layout) {}

  /// Opens what a program needs and is not open yet: collective over its ranks.
  Status prepare(const hal::Recording &recording);
  /// Of a start among more than one rank, after prepare(). `base` is the
  /// address of the device's memory. It refers to memory that an executable
  /// keeps (staging()).
  std::unique_ptr<StagedExchange> makeExchange(const fsdp_rt_start_desc &start,
                                               cu::Pointer base) const;
  std::shared_ptr<PinnedMemory> staging(int32_t queue) const {
    return staging_.at(queue);
  }

private:
  int64_t bytesOf(const fsdp_rt_start_desc &start) const;

  World &world_;
  const CudaContext &context_;
  const hal::Layout &layout_;
  std::map<std::vector<int>, std::unique_ptr<hal::HostChannel>> channels_;
  /// By queue, for one start at a time: a stream's copies have their order.
  std::map<int32_t, std::shared_ptr<PinnedMemory>> staging_;
};

} // namespace fsdp::rt

#endif // FSDP_RT_DEVICES_CUDA_NCCL_STAGEDTRANSFERS_H
