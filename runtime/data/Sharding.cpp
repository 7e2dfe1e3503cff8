//===- Sharding.cpp - Which rank holds what -------------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "data/Sharding.h"

#include "data/Staging.h"

#include <algorithm>
#include <cstring>

namespace fsdp::rt::data {

namespace {

std::vector<int64_t> coordinatesOf(const Manifest &manifest, int rank) {
  std::vector<int64_t> coordinates(manifest.mesh.size());
  int64_t rest = rank;
  for (size_t axis = coordinates.size(); axis-- > 0;) {
    coordinates[axis] = rest % manifest.mesh[axis].size;
    rest /= manifest.mesh[axis].size;
  }
  return coordinates;
}

int64_t rankAt(const Manifest &manifest,
               const std::vector<int64_t> &coordinates) {
  int64_t rank = 0;
  for (size_t axis = 0; axis < coordinates.size(); ++axis)
    rank = rank * manifest.mesh[axis].size + coordinates[axis];
  return rank;
}

} // namespace

int64_t placeAlong(const Manifest &manifest, int rank,
                   const std::vector<int> &axes) {
  std::vector<int64_t> coordinates = coordinatesOf(manifest, rank);
  int64_t place = 0;
  for (int axis : axes)
    place = place * manifest.mesh[axis].size + coordinates[axis];
  return place;
}

std::vector<int> ranksAlong(const Manifest &manifest, int rank,
                            const std::vector<int> &axes) {
  std::vector<int64_t> coordinates = coordinatesOf(manifest, rank);
  int64_t count = 1;
  for (int axis : axes) {
    coordinates[axis] = 0;
    count *= manifest.mesh[axis].size;
  }
  std::vector<int> ranks;
  ranks.reserve(count);
  for (int64_t place = 0; place < count; ++place) {
    int64_t rest = place;
    for (size_t i = axes.size(); i-- > 0;) {
      coordinates[axes[i]] = rest % manifest.mesh[axes[i]].size;
      rest /= manifest.mesh[axes[i]].size;
    }
    ranks.push_back(static_cast<int>(rankAt(manifest, coordinates)));
  }
  return ranks;
}

std::vector<std::vector<int>> groupRanks(const Manifest &manifest, int rank) {
  std::vector<std::vector<int>> groups;
  for (const std::vector<int> &axes : manifest.groups)
    groups.push_back(ranksAlong(manifest, rank, axes));
  return groups;
}

bool isFirstReplica(const Manifest &manifest, int rank,
                    const std::vector<int> &shardAxes) {
  std::vector<int64_t> coordinates = coordinatesOf(manifest, rank);
  for (int axis : shardAxes)
    coordinates[axis] = 0;
  return std::all_of(coordinates.begin(), coordinates.end(),
                     [](int64_t c) { return c == 0; });
}

std::vector<Piece> piecesOf(const FlatParam &flat, int64_t place) {
  int64_t begin = place * flat.shardNumel, end = begin + flat.shardNumel;
  std::vector<Piece> pieces;
  for (size_t m = 0; m < flat.members.size(); ++m) {
    const Member &member = flat.members[m];
    int64_t from = std::max(begin, member.offset);
    int64_t to = std::min(end, member.offset + member.numel);
    if (from < to)
      pieces.push_back({m, from - member.offset, from - begin, to - from});
  }
  return pieces;
}

Status clearPadding(const FlatParam &flat, const std::vector<Piece> &pieces,
                    hal::Location shard) {
  int64_t size = dtypeSize(flat.dtype), end = 0;
  auto clearUntil = [&](int64_t element) {
    return uploadElements(shard + end * size, element - end, size,
                          [&](int64_t, int64_t count, char *buffer) {
                            std::memset(buffer, 0, count * size);
                            return Status::ok();
                          });
  };
  for (const Piece &piece : pieces) {
    if (Status s = clearUntil(piece.shardBegin))
      return s;
    end = piece.shardBegin + piece.count;
  }
  return clearUntil(flat.shardNumel);
}

} // namespace fsdp::rt::data
