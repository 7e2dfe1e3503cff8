//===- MpiTransfer.h - Collectives that take turns --------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A collective is a few stages, one after the other: the ranks meet, then bytes
// move. A stage keeps its place in members and does in each turn what can be
// done without waiting, as the proxy threads of NCCL do. In a turn at most one
// chunk is handed to MPI, or one block added up, so that the transfers of
// several channels share the communication thread evenly. MPI serves
// messages between two ranks in the order in which they were handed to it:
// up to MpiGroup::window chunks of one transfer may be ahead of another's.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_CHANNELS_MPI_MPITRANSFER_H
#define FSDP_RT_CHANNELS_MPI_MPITRANSFER_H

#include "MpiWorker.h"
#include "core/Arena.h"
#include "core/Dtype.h"
#include "core/Group.h"
#include "core/ThreadPool.h"

#include <array>
#include <vector>

namespace fsdp::rt {

/// The ranks of a channel and what its transfers, one at a time, need.
struct MpiGroup {
  std::vector<int> ranks;
  /// To the others; this rank's own is not used.
  std::vector<Route> routes;
  int index = 0;
  /// The same on all ranks of the group, and of no other group.
  int64_t id = 0;
  ThreadPool *pool = nullptr;
  int64_t chunkBytes = 0;
  /// How long calls were blocked because others had not come to them.
  int64_t waited = 0;

  Arena staging;
  /// This rank's packet and, as they come, those of the others.
  std::vector<Packet> packets;
  /// The number of the packet that is awaited from each rank, or -1.
  std::vector<int64_t> awaited;
  std::vector<const void *> sources;
  /// Blocks that are added up, two at a time; messages received into place and
  /// messages passed on, `window` at a time.
  static constexpr int window = 4;
  static constexpr int numDataSets = 2 + 2 * window;
  RequestSet packetRequests;
  RequestSet dataRequests[numDataSets];
  RequestSet &blocks(int64_t i) { return dataRequests[i % 2]; }
  RequestSet &arriving(int64_t i) { return dataRequests[2 + i % window]; }
  RequestSet &leaving(int64_t i) {
    return dataRequests[2 + window + i % window];
  }

  int size() const { return static_cast<int>(ranks.size()); }
  /// In the tree of `root`, ranks count from the root, and rank r hangs below
  /// r without its lowest bit.
  int parentOf(int root) const {
    int self = (index - root + size()) % size();
    return ((self & (self - 1)) + root) % size();
  }
  template <typename Visit>
  void visitChildren(int root, const Visit &visit) const {
    int self = (index - root + size()) % size();
    int lowest = self == 0 ? size() : self & -self;
    for (int bit = 1; bit < lowest && self + bit < size(); bit *= 2)
      visit((self + bit + root) % size());
  }
};

/// How the bytes of a collective are dealt out: rank i has bytesOf(i).
struct MpiParts {
  int64_t count = 0;
  int64_t elementBytes = 1;
  int size = 1;
  /// Whether `count` elements are shared out, or each rank has as many.
  bool isShared = false;
  Part bytesOf(int index) const;
  /// Of the rank with most.
  int64_t maxBytes() const;
};

/// One stage of a transfer; `group` is that of the transfer.
class MpiStage {
public:
  using Progress = MpiJob::Progress;
  explicit MpiStage(MpiGroup &group) : group_(group) {}
  virtual ~MpiStage() = default;
  /// One turn. Where ranks do not agree, sets `status`.
  virtual Progress advance(MpiEngine &engine, Status &status) = 0;

protected:
  MpiGroup &group_;
};

/// A collective under way.
class MpiTransfer final : public MpiJob {
public:
  template <typename... Stages>
  explicit MpiTransfer(MpiGroup &group, Stages &...stages)
      : group_(group), stages_{&stages...}, count_(sizeof...(Stages)) {}
  Progress advance(MpiEngine &engine) override;
  /// Once it is done.
  const Status &status() const { return status_; }

private:
  void giveUp(MpiEngine &engine);

  MpiGroup &group_;
  std::array<MpiStage *, 3> stages_;
  size_t count_, stage_ = 0;
  Status status_;
};

//===----------------------------------------------------------------------===//
// Meeting: packets
//===----------------------------------------------------------------------===//

/// What the ways to meet have in common.
class MpiMeeting : public MpiStage {
public:
  MpiMeeting(MpiGroup &group, const PacketHeader &header)
      : MpiStage(group), header_(header) {}

protected:
  void send(MpiEngine &engine, int peer);
  void receive(MpiEngine &engine, int peer);
  /// Whether all packets have come and gone; fails where one never will.
  bool isOver(MpiEngine &engine, Status &status);
  /// Compares what `peer` is about to do with what this rank is.
  Status check(int peer) const;

  PacketHeader header_;
  /// When this rank began to wait; 0: it does not.
  int64_t since_ = 0;
};

/// Announces the collective to all ranks of the group and hears from all;
/// `inlined`, where not null, travels along.
class MpiExchange final : public MpiMeeting {
public:
  MpiExchange(MpiGroup &group, const PacketHeader &header, const void *inlined);
  Progress advance(MpiEngine &engine, Status &status) override;

private:
  bool isPosted_ = false;
};

/// Nobody leaves before all have come, in log2(size) rounds.
class MpiBarrier final : public MpiMeeting {
public:
  using MpiMeeting::MpiMeeting;
  Progress advance(MpiEngine &engine, Status &status) override;

private:
  int from() const {
    return (group_.index - distance_ + group_.size()) % group_.size();
  }
  int distance_ = 1;
  bool isPosted_ = false;
};

/// From the root of a tree to all.
class MpiTreeMeeting final : public MpiMeeting {
public:
  using MpiMeeting::MpiMeeting;
  Progress advance(MpiEngine &engine, Status &status) override;

private:
  enum { Begin, Hear, Tell } state_ = Begin;
};

//===----------------------------------------------------------------------===//
// Moving bytes
//===----------------------------------------------------------------------===//

/// The parts that belong to this rank, from all ranks' `src`, are added up into
/// `own`, block by block through the staging memory; the next block comes in
/// while one is added up.
class MpiReduction final : public MpiStage {
public:
  MpiReduction(MpiGroup &group, const MpiParts &parts, const void *src,
               char *own, Dtype dtype, int64_t divisor);
  Progress advance(MpiEngine &engine, Status &status) override;

private:
  int64_t sizeOf(const Part &part, int64_t block) const;
  char *slot(int64_t block, int peer) const;
  void post(MpiEngine &engine, int64_t block);
  void add(int64_t block);

  MpiParts parts_;
  Part mine_;
  const char *src_;
  char *own_;
  Dtype dtype_;
  int64_t divisor_;
  int64_t blockBytes_ = 0, numBlocks_ = 1;
  int64_t posted_ = 0, added_ = 0;
};

/// Every rank gets a part from each other one into `dst`, in the order of
/// ranks; this rank's own is there already.
class MpiDelivery final : public MpiStage {
public:
  /// Which part of `src` a rank is sent: the sender's own, the same for all, or
  /// the one that belongs to the receiver.
  enum Sent { OwnPart, PartOfReceiver };
  MpiDelivery(MpiGroup &group, const MpiParts &parts, const char *src,
              char *dst, Sent sent);
  Progress advance(MpiEngine &engine, Status &status) override;

private:
  MpiParts parts_;
  const char *src_;
  char *dst_;
  Sent sent_;
  int64_t chunks_;
  int64_t turn_ = 0;
};

/// From `root`, which holds the data, along a binomial tree.
class MpiSpread final : public MpiStage {
public:
  MpiSpread(MpiGroup &group, char *data, int64_t bytes, int root);
  Progress advance(MpiEngine &engine, Status &status) override;

private:
  int64_t sizeOf(int64_t chunk) const;
  void post(MpiEngine &engine);

  char *data_;
  int64_t bytes_;
  int root_;
  int64_t chunks_;
  int64_t posted_ = 0, passed_ = 0;
};

} // namespace fsdp::rt

#endif // FSDP_RT_CHANNELS_MPI_MPITRANSFER_H
