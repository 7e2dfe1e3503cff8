//===- NcclChannel.h - Communicators of NCCL --------------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_DEVICES_CUDA_NCCLCHANNEL_H
#define FSDP_RT_DEVICES_CUDA_NCCLCHANNEL_H

#include "core/Status.h"
#include "devices/cuda/CudaSettings.h"
#include "devices/cuda/NcclApi.h"
#include "hal/Channel.h"
#include "hal/World.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace fsdp::rt {

/// The ranks of one group, for one queue: a communicator.
class NcclChannel final : public hal::Channel {
public:
  /// Collective over `ranks`, among which `host` is and which are more than
  /// one; the current context is the device's. `maxCtas` is ncclConfig_t's.
  /// `api` and `world` must outlive it.
  static Result<std::unique_ptr<NcclChannel>>
  open(const NcclApi &api, World &world, hal::HostChannel &host,
       const std::vector<int> &ranks, int32_t queue, Reduction reduction,
       int maxCtas);
  ~NcclChannel() override;

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(ranks_.size()); }
  hal::Numerics numerics() const override;

  const NcclApi &api() const { return api_; }
  nccl::Comm get() const { return comm_; }
  const std::vector<int> &ranks() const { return ranks_; }
  int32_t queue() const { return queue_; }

  /// What has failed since, on this rank or between it and others.
  Status poll() const;
  /// Returns when nothing is in progress on the host: what was issued is on its
  /// stream.
  Status settle() const;
  /// Ends what runs; nothing can be issued any more.
  void abort();

private:
  NcclChannel(const NcclApi &api, World &world, const std::vector<int> &ranks,
              int32_t queue, Reduction reduction)
      : api_(api), world_(world), ranks_(ranks), queue_(queue),
        reduction_(reduction) {}
  Status connect(hal::HostChannel &host, int maxCtas);
  std::string describe() const;

  const NcclApi &api_;
  World &world_;
  std::vector<int> ranks_;
  int32_t queue_;
  Reduction reduction_;
  int rank_ = 0;
  nccl::Comm comm_ = nullptr;
};

} // namespace fsdp::rt

#endif // FSDP_RT_DEVICES_CUDA_NCCLCHANNEL_H
