//===- RunTransfers.h - Transfers on memory of this host --------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_DEVICES_CPU_RUNTRANSFERS_H
#define FSDP_RT_DEVICES_CPU_RUNTRANSFERS_H

#include "core/Status.h"
#include "fsdp-rt/abi.h"
#include "hal/CallRecord.h"
#include "hal/World.h"

#include <cstdint>
#include <memory>
#include <vector>

namespace fsdp::rt {

class ThreadPool;

/// The memories that offsets of descriptors count from.
struct RankMemory {
  char *device = nullptr;
  char *host = nullptr;

  /// Of an fsdp_rt_memory.
  char *base(int32_t memory) const {
    return memory == FSDP_RT_HOST ? host : device;
  }
};

/// By the manifest's groups; null where a program needs none.
using HostChannels = std::vector<std::unique_ptr<hal::HostChannel>>;

/// What became of a start.
struct TransferRecord {
  const fsdp_rt_start_desc *desc = nullptr;
  /// All its parts: TransferCounter's bytes.
  int64_t bytes = 0;
  /// When the program gave it out and when it ran, in nowNanoseconds(), and how
  /// much of that was waiting for other ranks.
  int64_t given = 0, begin = 0, end = 0, waiting = 0;

  CallRecord toCall() const;
};

/// Runs the transfers of `desc`, inside the start's guard, if it has one.
/// Collectives use `channels`; copies take as long as a link of
/// World::crossHostLink() for record.bytes from record.begin on. Both copy and
/// add on `pool`, where given. Sets record.waiting. Blocks until this rank's
/// part is done.
Status runTransfers(const fsdp_rt_start_desc &desc, World &world,
                    const HostChannels &channels, const RankMemory &memory,
                    ThreadPool *pool, TransferRecord &record);

/// Opens the channel that `desc` needs, if it is one of collectives and
/// `channels` has it not yet. Collective over the group.
Status openChannelFor(const fsdp_rt_start_desc &desc, World &world,
                      const std::vector<std::vector<int>> &groups,
                      ThreadPool *pool, HostChannels &channels);

} // namespace fsdp::rt

#endif // FSDP_RT_DEVICES_CPU_RUNTRANSFERS_H
