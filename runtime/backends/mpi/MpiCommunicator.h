//===- MpiCommunicator.h - Collectives by messages --------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_BACKENDS_MPI_MPICOMMUNICATOR_H
#define FSDP_RT_BACKENDS_MPI_MPICOMMUNICATOR_H

#include "MpiBackend.h"
#include "MpiWorker.h"
#include "core/Arena.h"
#include "core/Backend.h"
#include "core/Group.h"

#include <vector>

namespace fsdp::rt {

/// MPI moves bytes; sums are added up here, in the order of every backend. A
/// rank receives each part that it adds up from every other rank, block by
/// block through bounded staging memory, the next block while it adds one up.
class MpiCommunicator final : public Communicator {
public:
  /// Reserves the staging memory; call reserve() before use.
  MpiCommunicator(MpiWorker &worker, const MpiBackendOptions &options,
                  std::vector<int> ranks, int index, int nth, ThreadPool *pool);

  Status reserve();

  int rank() const override { return index_; }
  int size() const override { return static_cast<int>(ranks_.size()); }
  int64_t waitNanoseconds() const override { return waited_; }

  Status allGather(const void *src, void *dst, int64_t bytes) override;
  Status reduceScatter(const void *src, void *dst, int64_t count, Dtype dtype,
                       int64_t divisor) override;
  Status allReduce(const void *src, void *dst, int64_t count, Dtype dtype,
                   int64_t divisor) override;
  Status broadcast(const void *src, void *dst, int64_t bytes,
                   int root) override;
  Status barrier() override;

private:
  /// How the bytes of a collective are dealt out: rank i has [begin, end).
  struct Parts {
    int64_t count = 0;
    int64_t elementBytes = 1;
    int size = 1;
    /// Whether `count` elements are shared out, or each rank has as many.
    bool isShared = false;
    Part bytesOf(int index) const;
    /// Of the rank with most.
    int64_t maxBytes() const;
  };

  /// Runs `work(engine)`, which returns a Status, on the communication thread.
  template <typename Work>
  Status perform(const Work &work);
  /// Announces the collective to all ranks of the group and hears from all;
  /// `inlined`, where not null, travels along.
  Status exchange(MpiEngine &engine, PacketHeader header, const void *inlined);
  Status meetInTree(MpiEngine &engine, PacketHeader header);
  Status meetAsBarrier(MpiEngine &engine, PacketHeader header);
  Status waitForPackets(MpiEngine &engine);
  Status check(MpiEngine &engine, const PacketHeader &own, int peer) const;

  /// The parts that belong to this rank, from all ranks' `src`, are added up
  /// into `own`.
  bool reduce(MpiEngine &engine, const char *src, char *own, const Parts &parts,
              Dtype dtype, int64_t divisor);
  /// Every rank gets all parts into `dst`; `own` holds this rank's.
  bool gather(MpiEngine &engine, const char *own, char *dst,
              const Parts &parts);
  /// From `root` along a binomial tree.
  bool spread(MpiEngine &engine, char *data, int64_t bytes, int root);
  /// Takes requests back after a failure, which it returns.
  Status giveUp(MpiEngine &engine);

  PacketHeader header(PacketHeader::Kind kind, int64_t count) const;
  int parentOf(int root) const;
  template <typename Visit>
  void visitChildren(int root, const Visit &visit);

  MpiWorker &worker_;
  MpiBackendOptions options_;
  std::vector<int> ranks_;
  int index_;
  /// The same on all ranks of the group, and of no other group.
  int64_t id_;
  ThreadPool *pool_;
  int64_t waited_ = 0;

  Arena staging_;
  std::vector<Packet> packets_;
  std::vector<const void *> sources_;
  RequestSet packetRequests_;
  /// Blocks that are added up, two at a time; messages received into place and
  /// messages passed on, `window` at a time.
  static constexpr int window = 4;
  RequestSet blocks_[2];
  RequestSet arriving_[window];
  RequestSet leaving_[window];
};

} // namespace fsdp::rt

#endif // FSDP_RT_BACKENDS_MPI_MPICOMMUNICATOR_H
