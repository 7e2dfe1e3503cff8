//===- HostCopy.cpp - Copies between a rank's arenas ----------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "core/HostCopy.h"

#include "core/Reduce.h"

#include <string>

namespace fsdp::rt {

namespace {

struct Sides {
  int32_t from, to; // fsdp_rt_memory
};

/// Of a kind for which isHostCopy() holds.
Sides sidesOf(int32_t kind) {
  if (kind == FSDP_RT_OFFLOAD)
    return {FSDP_RT_DEVICE, FSDP_RT_HOST};
  return {FSDP_RT_HOST, FSDP_RT_DEVICE};
}

} // namespace

Status checkHostCopy(int32_t kind, const fsdp_rt_host_copy_desc &desc,
                     const RankMemory &memory) {
  Sides sides = sidesOf(kind);
  auto isIn = [&](int32_t arena, int64_t offset) {
    return offset >= 0 && desc.bytes >= 0 &&
           desc.bytes <= memory.bytes(arena) - offset;
  };
  if (isIn(sides.from, desc.src) && isIn(sides.to, desc.dst))
    return Status::ok();
  return Status::internal(
      "expected operands inside the arena of " +
      std::to_string(memory.deviceBytes) + " bytes and the host's of " +
      std::to_string(memory.hostBytes) + ", got src " +
      std::to_string(desc.src) + " and dst " + std::to_string(desc.dst) +
      " of " + std::to_string(desc.bytes) + " bytes");
}

void runHostCopy(int32_t kind, const fsdp_rt_host_copy_desc &desc,
                 const RankMemory &memory, ThreadPool *pool) {
  Sides sides = sidesOf(kind);
  copyBytes(pool, memory.base(sides.to) + desc.dst,
            memory.base(sides.from) + desc.src, desc.bytes);
}

} // namespace fsdp::rt
