//===- RankZero.h - What rank 0 decides for all ranks -----------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_DEVICES_CUDA_DRIVER_RANKZERO_H
#define FSDP_RT_DEVICES_CUDA_DRIVER_RANKZERO_H

#include "hal/Channel.h"
#include "hal/World.h"

#include <memory>
#include <vector>

namespace fsdp::rt {

/// A host channel over all ranks, which the first call opens. Calls are
/// collective: all ranks make the same, with as many elements.
class RankZero {
public:
  /// `world` must outlive it.
  explicit RankZero(World &world) : world_(world) {}

  /// Rank 0's elements, on all ranks.
  template <typename T>
  Status broadcast(std::vector<T> &values) {
    if (world_.size() == 1 || values.empty())
      return Status::ok();
    if (Status s = open())
      return s;
    return channel_->broadcast(values.data(), values.data(), bytesOf(values),
                               0);
  }

  /// Those of all ranks, rank by rank.
  template <typename T>
  Status gather(const std::vector<T> &mine, std::vector<T> &all) {
    all = mine;
    if (world_.size() == 1 || mine.empty())
      return Status::ok();
    all.resize(mine.size() * static_cast<size_t>(world_.size()));
    if (Status s = open())
      return s;
    return channel_->allGather(mine.data(), all.data(), bytesOf(mine));
  }

private:
  template <typename T>
  static int64_t bytesOf(const std::vector<T> &values) {
    return static_cast<int64_t>(values.size() * sizeof(T));
  }
  Status open() {
    if (channel_)
      return Status::ok();
    Result<std::unique_ptr<hal::HostChannel>> opened =
        world_.openChannelOfAll();
    if (!opened.isOk())
      return opened.status();
    channel_ = std::move(*opened);
    return Status::ok();
  }

  World &world_;
  std::unique_ptr<hal::HostChannel> channel_;
};

} // namespace fsdp::rt

#endif // FSDP_RT_DEVICES_CUDA_DRIVER_RANKZERO_H
