//===- HostCopy.h - Copies between a rank's arenas --------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What a rank offloads waits in a second arena. A copy between the two is no
// business of other ranks: it has no communicator and no backend.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_CORE_HOSTCOPY_H
#define FSDP_RT_CORE_HOSTCOPY_H

#include "core/Status.h"
#include "core/Transfers.h"
#include "fsdp-rt/abi.h"

#include <cstdint>

namespace fsdp::rt {

class ThreadPool;

/// The memory that offsets of descriptors count from.
struct RankMemory {
  char *device = nullptr;
  int64_t deviceBytes = 0;
  char *host = nullptr;
  int64_t hostBytes = 0;

  /// Of an fsdp_rt_memory.
  char *base(int32_t memory) const {
    return memory == FSDP_RT_HOST ? host : device;
  }
  int64_t bytes(int32_t memory) const {
    return memory == FSDP_RT_HOST ? hostBytes : deviceBytes;
  }
};

/// Whether `desc` is one that runHostCopy() may run: both sides lie in their
/// arenas. Allocates only to refuse.
Status checkHostCopy(int32_t kind, const fsdp_rt_host_copy_desc &desc,
                     const RankMemory &memory);

/// Of one that checkHostCopy() accepts: copies it on the threads of `pool`,
/// where given.
void runHostCopy(int32_t kind, const fsdp_rt_host_copy_desc &desc,
                 const RankMemory &memory, ThreadPool *pool);

} // namespace fsdp::rt

#endif // FSDP_RT_CORE_HOSTCOPY_H
