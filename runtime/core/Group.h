//===- Group.h - Checks that backends share ---------------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_CORE_GROUP_H
#define FSDP_RT_CORE_GROUP_H

#include "core/Status.h"

#include <cstdint>
#include <vector>

namespace fsdp::rt {

/// Accepts world ranks of a group: strictly increasing, in [0, worldSize), and
/// `rank` among them. Gives the place of `rank`.
Result<int> placeInGroup(const std::vector<int> &ranks, int rank,
                         int worldSize);

/// "rank 2" or "ranks 0, 2".
std::string describeRanks(const std::vector<int> &ranks);

/// Identifies the channel that was the `nth` over these ranks: FNV-1a of 64
/// bits over ranks and `~nth`, each taken as one symbol.
uint64_t channelId(const std::vector<int> &ranks, int nth);

/// The part [begin, end) of `count` elements that rank `index` of `size` adds
/// up in an all-reduce. Parts begin on cache lines of the buffer.
struct Part {
  int64_t begin = 0;
  int64_t end = 0;
};
Part reducePart(int64_t count, int64_t elementBytes, int size, int index);

} // namespace fsdp::rt

#endif // FSDP_RT_CORE_GROUP_H
