//===- Group.cpp - Checks that backends share -----------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "core/Group.h"

#include <algorithm>

namespace fsdp::rt {

Result<int> placeInGroup(const std::vector<int> &ranks, int rank,
                         int worldSize) {
  int place = -1;
  for (size_t i = 0; i < ranks.size(); ++i) {
    if (ranks[i] < 0 || ranks[i] >= worldSize)
      return Status::failed("group: expected ranks below " +
                            std::to_string(worldSize) + ", got " +
                            std::to_string(ranks[i]));
    if (i > 0 && ranks[i] <= ranks[i - 1])
      return Status::failed("group: expected strictly increasing ranks, got " +
                            std::to_string(ranks[i - 1]) + " before " +
                            std::to_string(ranks[i]));
    if (ranks[i] == rank)
      place = static_cast<int>(i);
  }
  if (place < 0)
    return Status::failed("group: expected rank " + std::to_string(rank) +
                          " among its own " + std::to_string(ranks.size()) +
                          " ranks, got none");
  return place;
}

std::string describeRanks(const std::vector<int> &ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < ranks.size(); ++i)
    text += (i == 0 ? "" : ", ") + std::to_string(ranks[i]);
  return text;
}

uint64_t channelId(const std::vector<int> &ranks, int nth) {
  uint64_t hash = 0xcbf29ce484222325;
  auto add = [&](uint64_t symbol) { hash = (hash ^ symbol) * 0x100000001b3; };
  for (int rank : ranks)
    add(static_cast<uint64_t>(rank));
  add(~static_cast<uint64_t>(nth));
  return hash;
}

Part reducePart(int64_t count, int64_t elementBytes, int size, int index) {
  constexpr int64_t line = 64;
  int64_t unit = line / elementBytes;
  int64_t each = (count + size - 1) / size;
  each = (each + unit - 1) / unit * unit;
  return {std::min(each * index, count), std::min(each * (index + 1), count)};
}

} // namespace fsdp::rt
