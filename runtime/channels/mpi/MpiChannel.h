//===- MpiChannel.h - Collectives by messages --------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_CHANNELS_MPI_MPICHANNEL_H
#define FSDP_RT_CHANNELS_MPI_MPICHANNEL_H

#include "MpiBackend.h"
#include "MpiTransfer.h"
#include "MpiWorker.h"
#include "hal/World.h"

#include <vector>

namespace fsdp::rt {

/// MPI moves bytes; sums are added up here, in the order of every backend.
class MpiChannel final : public hal::HostChannel {
public:
  /// Call reserve() before use. `nth`: how often a group of these was made.
  MpiChannel(MpiWorker &worker, const MpiBackendOptions &options,
             std::vector<int> ranks, int index, int nth, ThreadPool *pool);

  /// Opens routes and reserves the staging memory.
  Status reserve();

  int rank() const override { return group_.index; }
  int size() const override { return group_.size(); }
  /// Every sum is one of SumPart, wherever it is computed.
  hal::Numerics numerics() const override { return {}; }
  int64_t waitNanoseconds() const override { return group_.waited; }

  Status run(const hal::HostCollective &what) override;
  Status broadcast(const void *src, void *dst, int64_t bytes,
                   int root) override;
  Status barrier() override;

private:
  PacketHeader header(int32_t kind, int64_t count) const;
  MpiParts partsOf(const hal::HostCollective &what) const;
  Status allGather(const hal::HostCollective &what, const PacketHeader &header);
  Status allReduce(const hal::HostCollective &what, const PacketHeader &header);
  template <typename... Stages>
  Status perform(Stages &...stages);

  MpiWorker &worker_;
  int64_t stagingBytes_;
  MpiGroup group_;
};

} // namespace fsdp::rt

#endif // FSDP_RT_CHANNELS_MPI_MPICHANNEL_H
