//===- World.h - What one rank sees of its program --------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_HAL_WORLD_H
#define FSDP_RT_HAL_WORLD_H

#include "core/Status.h"
#include "fsdp-rt/abi.h"
#include "hal/Channel.h"

#include <cstdint>
#include <memory>
#include <numeric>
#include <vector>

namespace fsdp::rt {

class ThreadPool;

/// What one rank sees of the running program.
class World {
public:
  virtual ~World() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// Ranks that share this host, and this rank's place among them.
  virtual int localRank() const = 0;
  virtual int localSize() const = 0;
  /// A channel over `ranks` (world ranks, strictly increasing, this one among
  /// them). Collective over those ranks; called in the same order on all. It
  /// copies and adds on the threads of `pool`, where given, which must outlive
  /// it and must not be used during a call.
  virtual Result<std::unique_ptr<hal::HostChannel>>
  openChannel(const std::vector<int> &ranks, ThreadPool *pool = nullptr) = 0;
  /// One over all ranks.
  Result<std::unique_ptr<hal::HostChannel>> openChannelOfAll() {
    std::vector<int> everyone(static_cast<size_t>(size()));
    std::iota(everyone.begin(), everyone.end(), 0);
    return openChannel(everyone);
  }
  /// Whether collectives take time in which none of this host's cores works for
  /// them, as those between hosts do. Where not, they only copy and add in this
  /// host's memory.
  virtual bool hasLink() const = 0;
  /// Returns when a copy of `bytes` between this rank's device and its host
  /// (fsdp_rt_transfer_kind), which began at `begin` (nowNanoseconds()), would
  /// be over on a link as slow as the one of collectives. At once where nobody
  /// asked for such links. Callable from any thread.
  virtual void crossHostLink(int32_t kind, int64_t bytes, int64_t begin) {
    (void)kind, (void)bytes, (void)begin;
  }
  /// Nanoseconds after which a wait for other ranks or for a device that makes
  /// no progress is a failure; 0: it may last forever.
  virtual int64_t waitLimit() const { return 0; }
  /// Makes every other rank fail with this rank's number and `why`. Idempotent;
  /// the first reason in the program wins. Callable from any thread.
  virtual void abort(const Status &why) = 0;
  /// The program's failure, as this rank has heard of it; success while there
  /// is none. Does not wait for other ranks. Callable from any thread: what
  /// waits for a device polls it.
  virtual Status failure() = 0;
};

} // namespace fsdp::rt

#endif // FSDP_RT_HAL_WORLD_H
