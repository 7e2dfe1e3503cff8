//===- LocalChannel.h - Collectives among rank threads -----*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_CHANNELS_LOCAL_LOCALCHANNEL_H
#define FSDP_RT_CHANNELS_LOCAL_LOCALCHANNEL_H

#include "LocalWorld.h"

#include <memory>
#include <vector>

namespace fsdp::rt {

/// Every rank reads the others' buffers where they lie: an all-gather is one
/// copy per shard, a sum reads each term once.
class LocalChannel final : public hal::HostChannel {
public:
  LocalChannel(LocalProgram &program, std::shared_ptr<LocalGroup> group,
               int index, ThreadPool *pool);

  int rank() const override { return index_; }
  int size() const override { return group_->size(); }
  /// Every sum is one of SumPart, wherever it is computed.
  hal::Numerics numerics() const override { return {}; }
  int64_t waitNanoseconds() const override { return waited_; }

  Status run(const hal::HostCollective &what) override;
  Status broadcast(const void *src, void *dst, int64_t bytes,
                   int root) override;
  Status barrier() override;
  void beginTogether() override { isTogether_ = true; }
  void endTogether() override { isTogether_ = isLatencyPaid_ = false; }

private:
  /// Meets the other ranks, runs `work` on their buffers and parts again.
  template <typename Work>
  Status meet(const LocalRequest &request, const Work &work);
  Status brokenStatus(int32_t kind) const;
  /// Makes the program fail for the ranks that have not come.
  void abortLate(int32_t kind) const;
  /// The request that differs from rank 0's, if any.
  Status mismatch() const;
  /// Stays until the bytes would have crossed the link, had they come to it
  /// when the last rank came.
  void crossLink(const LocalRequest &request);

  /// What this rank does once all have come to `what`.
  void move(const hal::HostCollective &what);
  void sumPart(int64_t begin, int64_t end, Dtype dtype, int64_t divisor);

  LocalProgram &program_;
  std::shared_ptr<LocalGroup> group_;
  int index_;
  ThreadPool *pool_;
  int64_t waited_ = 0;
  bool isTogether_ = false;
  /// By a call that is issued together with the next.
  bool isLatencyPaid_ = false;
  /// Reserved here, so that calls allocate nothing.
  std::vector<const void *> sources_;
};

} // namespace fsdp::rt

#endif // FSDP_RT_CHANNELS_LOCAL_LOCALCHANNEL_H
