//===- MpiCommunicator.h - Collectives by messages --------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_BACKENDS_MPI_MPICOMMUNICATOR_H
#define FSDP_RT_BACKENDS_MPI_MPICOMMUNICATOR_H

#include "MpiBackend.h"
#include "MpiTransfer.h"
#include "MpiWorker.h"
#include "core/Backend.h"

#include <vector>

namespace fsdp::rt {

/// MPI moves bytes; sums are added up here, in the order of every backend.
class MpiCommunicator final : public Communicator {
public:
  /// Call reserve() before use. `nth`: how often a group of these was made.
  MpiCommunicator(MpiWorker &worker, const MpiBackendOptions &options,
                  std::vector<int> ranks, int index, int nth, ThreadPool *pool);

  /// Opens channels and reserves the staging memory.
  Status reserve();

  int rank() const override { return group_.index; }
  int size() const override { return group_.size(); }
  int64_t waitNanoseconds() const override { return group_.waited; }

  Status allGather(const void *src, void *dst, int64_t bytes) override;
  Status reduceScatter(const void *src, void *dst, int64_t count, Dtype dtype,
                       int64_t divisor) override;
  Status allReduce(const void *src, void *dst, int64_t count, Dtype dtype,
                   int64_t divisor) override;
  Status broadcast(const void *src, void *dst, int64_t bytes,
                   int root) override;
  Status barrier() override;

private:
  PacketHeader header(int32_t kind, int64_t count) const;
  template <typename... Stages>
  Status perform(Stages &...stages);

  MpiWorker &worker_;
  int64_t stagingBytes_;
  MpiGroup group_;
};

} // namespace fsdp::rt

#endif // FSDP_RT_BACKENDS_MPI_MPICOMMUNICATOR_H
