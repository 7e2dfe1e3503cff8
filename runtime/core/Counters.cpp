//===- Counters.cpp - What a rank has done --------------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "core/Counters.h"

namespace fsdp::rt {

const char *collectiveName(CollectiveKind kind) {
  switch (kind) {
  case CollectiveKind::AllGather:
    return "all_gather";
  case CollectiveKind::ReduceScatter:
    return "reduce_scatter";
  case CollectiveKind::AllReduce:
    return "all_reduce";
  case CollectiveKind::Broadcast:
    return "broadcast";
  }
  return "unknown";
}

int64_t collectiveBytes(CollectiveKind kind, int64_t ranks, int64_t count,
                        int64_t elementBytes, bool isRoot) {
  switch (kind) {
  case CollectiveKind::AllGather:
  case CollectiveKind::ReduceScatter:
    return (ranks - 1) * count * elementBytes;
  case CollectiveKind::AllReduce:
    return 2 * (ranks - 1) * ((count + ranks - 1) / ranks) * elementBytes;
  case CollectiveKind::Broadcast:
    return isRoot ? 0 : count * elementBytes;
  }
  return 0;
}

} // namespace fsdp::rt
