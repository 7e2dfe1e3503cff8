//===- LocalGroup.h - A group of rank threads -------------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_CHANNELS_LOCAL_LOCALGROUP_H
#define FSDP_RT_CHANNELS_LOCAL_LOCALGROUP_H

#include "core/Dtype.h"
#include "hal/Transfers.h"

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace fsdp::rt {

/// What a rank brings to a collective; the same on all ranks of the group but
/// for the buffers.
struct LocalRequest {
  /// A collective of fsdp_rt_transfer_kind, or a ControlKind.
  int32_t kind = controlBarrier;
  const void *src = nullptr;
  void *dst = nullptr;
  int64_t count = 0;
  Dtype dtype = FSDP_RT_U8;
  int64_t divisor = 1;
  int root = 0;

  bool matches(const LocalRequest &other) const {
    return kind == other.kind && count == other.count && dtype == other.dtype &&
           divisor == other.divisor && root == other.root;
  }
};

/// The meeting point of a group's ranks. A collective is open() - work on the
/// others' buffers - close(): open() can be broken, and then no rank of the
/// group gets past it; once it is passed, every rank reaches close(), which is
/// why no buffer goes away while another rank works on it.
///
/// The word holds the number of completed meetings, how many ranks have come to
/// the next one and whether the group is broken, so that "all have come" and
/// "broken" exclude each other.
class LocalGroup {
public:
  /// `spin`: waiting ranks burn some microseconds before they sleep.
  /// `waitLimit`: World::waitLimit.
  LocalGroup(std::vector<int> ranks, bool spin, int64_t waitLimit = 0);

  const std::vector<int> &ranks() const { return ranks_; }
  int size() const { return static_cast<int>(ranks_.size()); }

  /// Publishes `request` and waits for all ranks. False: the group is broken
  /// and this collective will not happen. Calls `breakLate`, which has to break
  /// the group, if a rank is missing when the limit is exceeded; the wait then
  /// ends as the group does: the last rank may have come in this moment.
  bool open(int index, const LocalRequest &request, int64_t &waited,
            const std::function<void()> &breakLate);
  /// After open(): when the last rank came, in nowNanoseconds(), however late
  /// this one woke.
  int64_t opened() const { return opened_.load(); }
  /// After open(): what the rank with `index` brought.
  const LocalRequest &request(int index) const { return members_[index]; }
  /// Waits until all ranks are done with the buffers.
  void close(int64_t &waited);

  /// World ranks that have not come to the meeting in which `index` waits.
  std::vector<int> missing(int index) const;

  /// Makes every open() that has not completed fail, now and later.
  void breakUp();
  /// breakUp() because `worldRank` takes part no more; the first one is kept.
  void leave(int worldRank);
  /// Who left, or -1.
  int leaver() const { return leaver_.load(); }

private:
  static constexpr uint32_t broken = 1;
  static constexpr uint32_t countUnit = 2;
  static constexpr uint32_t countMask = 0xfffe;
  static constexpr uint32_t meetingUnit = 0x10000;

  /// Counts this rank in; false if the group is broken and that matters.
  bool arrive(bool isBreakable, uint32_t &word);
  bool meet(int64_t &waited, const std::function<void()> *breakLate);

  std::vector<int> ranks_;
  std::vector<LocalRequest> members_;
  /// How many meetings each rank has come to.
  std::vector<std::atomic<uint32_t>> arrivals_;
  bool spin_;
  int64_t waitLimit_;
  alignas(64) std::atomic<uint32_t> word_{0};
  std::atomic<int> sleepers_{0};
  /// Written before open() counts a rank in. The next open() writes it when all
  /// ranks have come to close().
  std::atomic<int64_t> opened_{0};
  std::atomic<int> leaver_{-1};
};

} // namespace fsdp::rt

#endif // FSDP_RT_CHANNELS_LOCAL_LOCALGROUP_H
