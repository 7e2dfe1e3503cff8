//===- NcclChannel.h - Communicators of NCCL --------------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_DEVICES_CUDA_NCCL_NCCLCHANNEL_H
#define FSDP_RT_DEVICES_CUDA_NCCL_NCCLCHANNEL_H

#include "core/Status.h"
#include "devices/cuda/driver/CudaSettings.h"
#include "devices/cuda/nccl/NcclApi.h"
#include "hal/Channel.h"
#include "hal/World.h"

#include <cstdint>
#include <map>
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
  /// Nanoseconds that the end of a communicator may take.
  static constexpr int64_t endLimit = 5'000'000'000;

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(ranks_.size()); }
  hal::Numerics numerics() const override;

  const NcclApi &api() const { return api_; }
  nccl::Comm get() const { return comm_; }
  const std::vector<int> &ranks() const { return ranks_; }
  int32_t queue() const { return queue_; }

  /// The operation that adds up what ranks have divided by `divisor`, of
  /// float16: partial sums fit where the mean does. All ranks ask for the same.
  Result<int> meanOf(int64_t divisor);
  /// What has failed since, on this rank or between it and others.
  Status poll() const;
  /// Returns when nothing is in progress on the host: what was issued is on its
  /// stream.
  Status settle() const;
  /// Whether a call is still in progress on the host.
  bool isInProgress() const;
  /// Ends what others may still want of this rank, once all work is over and
  /// graphs are destroyed. False: the communicator has to be aborted.
  bool finalize() const;
  /// Gives up the communicator, which the caller aborts; null: it has been
  /// given up before. Nothing can be issued any more.
  nccl::Comm release();

private:
  NcclChannel(const NcclApi &api, World &world, const std::vector<int> &ranks,
              int32_t queue, Reduction reduction)
      : api_(api), world_(world), ranks_(ranks), queue_(queue),
        reduction_(reduction) {}
  Status connect(hal::HostChannel &host, int maxCtas);
  /// Of `nanoseconds` at most; 0: as long as it takes.
  Status settle(int64_t nanoseconds) const;
  std::string describe() const;

  const NcclApi &api_;
  World &world_;
  std::vector<int> ranks_;
  int32_t queue_;
  Reduction reduction_;
  int rank_ = 0;
  nccl::Comm comm_ = nullptr;
  std::map<int64_t, int> means_;
};

} // namespace fsdp::rt

#endif // FSDP_RT_DEVICES_CUDA_NCCL_NCCLCHANNEL_H
