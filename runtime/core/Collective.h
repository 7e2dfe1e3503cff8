//===- Collective.h - Collectives as descriptors ----------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_CORE_COLLECTIVE_H
#define FSDP_RT_CORE_COLLECTIVE_H

#include "core/Backend.h"
#include "core/Status.h"
#include "core/Transfers.h"
#include "fsdp-rt/abi.h"

#include <cstdint>

namespace fsdp::rt {

/// Whether `desc` is one that runCollective() may run on rank `rank` of a group
/// of `ranks`, in an arena of `arenaBytes`: element type, and operands
/// that lie in the arena, apart or in place. Allocates only to refuse.
Status checkCollective(int32_t kind, const fsdp_rt_collective_desc &desc,
                       int rank, int ranks, int64_t arenaBytes);

/// Of one that checkCollective() accepts; blocks until this rank's part is
/// done.
Status runCollective(int32_t kind, const fsdp_rt_collective_desc &desc,
                     Communicator &group, char *arena);

/// collectiveBytes() of one that checkCollective() accepts.
int64_t collectiveBytes(int32_t kind, const fsdp_rt_collective_desc &desc,
                        int ranks);

/// Whether ranges of the arena overlap without being the same bytes.
inline bool clash(int64_t a, int64_t aBytes, int64_t b, int64_t bBytes) {
  return a < b + bBytes && b < a + aBytes && !(a == b && aBytes == bBytes);
}

} // namespace fsdp::rt

#endif // FSDP_RT_CORE_COLLECTIVE_H
