//===- Collective.cpp - Collectives as descriptors ------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "core/Collective.h"

#include "core/Dtype.h"

#include <string>

namespace fsdp::rt {

namespace {

/// How many ranks' parts the sides of a collective hold.
struct Parts {
  int src, dst;
};

/// Of a kind for which isCollective() holds.
Parts partsOf(int32_t kind, int ranks) {
  switch (static_cast<fsdp_rt_transfer_kind>(kind)) {
  case FSDP_RT_ALL_GATHER:
    return {1, ranks};
  case FSDP_RT_REDUCE_SCATTER:
    return {ranks, 1};
  case FSDP_RT_ALL_REDUCE:
  case FSDP_RT_OFFLOAD:
  case FSDP_RT_RELOAD:
    break;
  }
  return {1, 1};
}

} // namespace

Status checkCollective(int32_t kind, const fsdp_rt_collective_desc &desc,
                       int rank, int ranks, int64_t arenaBytes) {
  if (!isDtype(desc.dtype))
    return Status::internal("expected an element type, got " +
                            std::to_string(desc.dtype));
  int64_t size = dtypeSize(static_cast<Dtype>(desc.dtype));
  // Beyond this the products below would not fit 64 bits.
  if (desc.count < 0 || desc.count > arenaBytes)
    return Status::internal("expected 0 to " + std::to_string(arenaBytes) +
                            " elements, got " + std::to_string(desc.count));
  int64_t bytes = desc.count * size;
  Parts parts = partsOf(kind, ranks);
  int64_t srcBytes = bytes * parts.src, dstBytes = bytes * parts.dst;
  auto inArena = [&](int64_t offset, int64_t length) {
    return offset >= 0 && length <= arenaBytes - offset && offset % size == 0;
  };
  auto operands = [&] {
    return "got src " + std::to_string(desc.src) + " and dst " +
           std::to_string(desc.dst) + " of " + std::to_string(desc.count) +
           " elements";
  };
  if (!inArena(desc.src, srcBytes) || !inArena(desc.dst, dstBytes))
    return Status::internal("expected operands inside the arena of " +
                            std::to_string(arenaBytes) + " bytes, " +
                            operands());

  // In place: this rank's part of the larger side is the smaller side.
  int64_t srcOwn = desc.src + (parts.src > 1 ? rank * bytes : 0);
  int64_t dstOwn = desc.dst + (parts.dst > 1 ? rank * bytes : 0);
  bool isApart =
      srcOwn == dstOwn || !clash(desc.src, srcBytes, desc.dst, dstBytes);
  if (!isApart)
    return Status::internal("expected operands apart or in place, " +
                            operands());
  return Status::ok();
}

Status runCollective(int32_t kind, const fsdp_rt_collective_desc &desc,
                     Communicator &group, char *arena) {
  auto dtype = static_cast<Dtype>(desc.dtype);
  const char *src = arena + desc.src;
  char *dst = arena + desc.dst;
  int64_t bytes = desc.count * dtypeSize(dtype);
  switch (static_cast<fsdp_rt_transfer_kind>(kind)) {
  case FSDP_RT_ALL_GATHER:
    return group.allGather(src, dst, bytes);
  case FSDP_RT_REDUCE_SCATTER:
    return group.reduceScatter(src, dst, desc.count, dtype, desc.divisor);
  case FSDP_RT_ALL_REDUCE:
    return group.allReduce(src, dst, desc.count, dtype, desc.divisor);
  case FSDP_RT_OFFLOAD:
  case FSDP_RT_RELOAD:
    break;
  }
  return Status::internal("expected a kind of collective, got " +
                          std::to_string(kind));
}

int64_t collectiveBytes(int32_t kind, const fsdp_rt_collective_desc &desc,
                        int ranks) {
  return collectiveBytes(kind, ranks, desc.count,
                         dtypeSize(static_cast<Dtype>(desc.dtype)));
}

} // namespace fsdp::rt
