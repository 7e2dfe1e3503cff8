//===- reductions.h - What sums over ranks receive --------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A CUDA device adds up in the tree of abi.def what it receives from the other
// ranks (--reduction exact), in memory beside the arena. The compiler states
// its bytes in the manifest and the runtime lays it out: both count here.
// C++17.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_REDUCTIONS_H
#define FSDP_RT_REDUCTIONS_H

#include <algorithm>
#include <cstdint>

namespace fsdp::rt {

/// How a sum over ranks is cut into parts, of which each rank adds up one:
/// elements [begin, begin + size) of `rank`, at most `length`.
struct SumParts {
  int64_t count, length;
  int64_t begin(int64_t rank) const { return std::min(rank * length, count); }
  int64_t size(int64_t rank) const {
    return std::min(length, count - begin(rank));
  }
};

/// What one rank receives lies this far from what the next one sends, in whole
/// multiples of so many bytes.
constexpr int64_t receivedAlignment = 256;

/// Bytes from what one rank sends to what the next one does, in the memory of
/// the rank that receives `elements` of each.
constexpr int64_t getReceivedStride(int64_t elements, int64_t elementBytes) {
  int64_t bytes = elements * elementBytes;
  return (bytes + receivedAlignment - 1) / receivedAlignment *
         receivedAlignment;
}

/// An all_reduce: where `isDirect`, each rank receives and adds up all of it,
/// otherwise a part, which it then sends to the others.
struct AllReducePlan {
  bool isDirect;
  SumParts parts;
};
inline AllReducePlan planAllReduce(int64_t count, int64_t elementBytes,
                                   int64_t ranks) {
  constexpr int64_t directBytes = int64_t(32) << 10;
  if (count * elementBytes <= directBytes)
    return {true, {count, count}};
  int64_t step = receivedAlignment / elementBytes;
  int64_t length = (count + ranks - 1) / ranks;
  return {false, {count, (length + step - 1) / step * step}};
}

/// Bytes that a rank receives for a reduce_scatter, each of whose parts has
/// `count` elements, or an all_reduce of so many.
inline int64_t getReceivedBytes(bool isAllReduce, int64_t count,
                                int64_t elementBytes, int64_t ranks) {
  if (isAllReduce)
    count = planAllReduce(count, elementBytes, ranks).parts.length;
  return (ranks - 1) * getReceivedStride(count, elementBytes);
}

} // namespace fsdp::rt

#endif // FSDP_RT_REDUCTIONS_H
