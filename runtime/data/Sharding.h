//===- Sharding.h - Which rank holds what ------------------------*- C++
//-*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_DATA_SHARDING_H
#define FSDP_RT_DATA_SHARDING_H

#include "data/Manifest.h"
#include "hal/Memory.h"

#include <cstdint>
#include <vector>

namespace fsdp::rt::data {

/// Place of `rank` among the ranks that differ from it only in `axes` (indices
/// into the mesh), the first of which counts most: for increasing axes the
/// order of the ranks' numbers.
int64_t placeAlong(const Manifest &manifest, int rank,
                   const std::vector<int> &axes);

/// Those ranks, by their places.
std::vector<int> ranksAlong(const Manifest &manifest, int rank,
                            const std::vector<int> &axes);

/// For every group of the manifest: the ranks of the instance with `rank`.
std::vector<std::vector<int>> groupRanks(const Manifest &manifest, int rank);

/// Whether no rank with a lower number holds the same shard as `rank`.
bool isFirstReplica(const Manifest &manifest, int rank,
                    const std::vector<int> &shardAxes);

/// Elements [memberBegin, memberBegin + count) of a member, which a shard
/// holds from its element shardBegin on.
struct Piece {
  size_t member;
  int64_t memberBegin;
  int64_t shardBegin;
  int64_t count;
};

/// What members the `place`-th shard holds, in order. What no piece covers is
/// padding.
std::vector<Piece> piecesOf(const FlatParam &flat, int64_t place);

/// Zeroes what no piece covers of a shard of `shardNumel` elements.
Status clearPadding(const FlatParam &flat, const std::vector<Piece> &pieces,
                    hal::Location shard);

} // namespace fsdp::rt::data

#endif // FSDP_RT_DATA_SHARDING_H
