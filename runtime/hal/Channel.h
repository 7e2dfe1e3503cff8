//===- Channel.h - Collectives among the ranks of a group -------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_HAL_CHANNEL_H
#define FSDP_RT_HAL_CHANNEL_H

#include "core/Dtype.h"
#include "core/Status.h"
#include "fsdp-rt/abi.h"

#include <cstdint>

namespace fsdp::rt::hal {

/// What the sums of a channel promise.
struct Numerics {
  enum class Order {
    /// The tree of abi.def over the group's ranks: the bits of a sum depend on
    /// neither the channel nor the group's spread over hosts.
    FixedTree,
    /// Any, and another one in the next call.
    Unordered
  };
  enum class Rounding {
    /// Narrow floats are added in float32 and rounded at the end.
    Once,
    /// Each partial sum is rounded to the elements' type.
    EachHop
  };
  Order order = Order::FixedTree;
  Rounding rounding = Rounding::Once;

  /// Whether the bits of a sum follow from those of its terms.
  bool hasFixedBits() const {
    return order == Order::FixedTree && rounding == Rounding::Once;
  }
};

/// The ranks of one group, for one queue. A device says which kinds of channels
/// it uses: those whose calls block and move memory that the host reaches
/// (HostChannel), or those that enqueue on the device.
class Channel {
public:
  virtual ~Channel() = default;
  /// This rank's place among `size()` ranks of the group.
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual Numerics numerics() const = 0;
};

/// A collective of a channel's ranks on memory that the host reaches: `src`,
/// `dst`, `count`, `dtype` and `divisor` are what the descriptor of abi.def
/// says of the kind. What adds nothing up ignores the divisor.
struct HostCollective {
  fsdp_rt_transfer_kind kind;
  const void *src;
  void *dst;
  int64_t count;
  Dtype dtype;
  int64_t divisor = 1;
};

/// Refuses kinds of copies, and sums that no channel computes.
Status checkCollective(const HostCollective &what);

/// Contract: every rank of the group makes the same calls in the same order,
/// one at a time. Several channels may be used at once, each by a thread of its
/// own: a call that waits for other ranks keeps none of another channel from
/// its end, so that ranks may come to those in different orders. A call returns
/// when this rank's `dst` is complete and its `src` may be overwritten. A
/// failure on any rank of the program makes every pending and later call on all
/// others fail with that rank's number and reason.
class HostChannel : public Channel {
public:
  /// Any collective of transfers.def; a kind of copy fails.
  virtual Status run(const HostCollective &what) = 0;
  /// dst[i * bytes ..] = src of rank i. `src` may be dst + rank() * bytes.
  Status allGather(const void *src, void *dst, int64_t bytes) {
    return run({FSDP_RT_ALL_GATHER, src, dst, bytes, FSDP_RT_U8});
  }
  /// dst = sum over ranks of src[rank() * count ..] / divisor.
  Status reduceScatter(const void *src, void *dst, int64_t count, Dtype dtype,
                       int64_t divisor) {
    return run({FSDP_RT_REDUCE_SCATTER, src, dst, count, dtype, divisor});
  }
  /// dst = sum over ranks of src / divisor; src may equal dst.
  Status allReduce(const void *src, void *dst, int64_t count, Dtype dtype,
                   int64_t divisor) {
    return run({FSDP_RT_ALL_REDUCE, src, dst, count, dtype, divisor});
  }
  /// dst[i * bytes ..] = src[rank() * bytes ..] of rank i; src and dst are
  /// apart.
  Status allToAll(const void *src, void *dst, int64_t bytes) {
    return run({FSDP_RT_ALL_TO_ALL, src, dst, bytes, FSDP_RT_U8});
  }
  /// dst = src of `root`; src may equal dst.
  virtual Status broadcast(const void *src, void *dst, int64_t bytes,
                           int root) = 0;
  virtual Status barrier() = 0;
  /// The calls in between are issued together: where a transport takes some
  /// time before the first byte, it takes it once.
  virtual void beginTogether() {}
  virtual void endTogether() {}
  /// Nanoseconds that this rank has been blocked in calls because others had
  /// not come to them, or were not done; the rest of a call moves and adds.
  virtual int64_t waitNanoseconds() const = 0;
};

} // namespace fsdp::rt::hal

#endif // FSDP_RT_HAL_CHANNEL_H
