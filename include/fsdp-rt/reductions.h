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
// What ranks send follows from the same plan.
// C++17.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_REDUCTIONS_H
#define FSDP_RT_REDUCTIONS_H

#include <algorithm>
#include <cstdint>

namespace fsdp::rt {

/// Where a group's ranks are, as its sums have it. Where `nodes` is 1, each
/// rank receives the others' elements and adds up all of them. Otherwise each
/// node has as many ranks, one after another in the group, and a sum has two
/// levels: ranks add up what those of their node have, and then what ranks of
/// equal place in the other nodes have added up.
struct SumPlacement {
  int64_t ranks = 1, nodes = 1;
  int64_t perNode() const { return ranks / nodes; }
  int64_t nodeOf(int64_t rank) const { return rank / perNode(); }
  int64_t placeOf(int64_t rank) const { return rank % perNode(); }
  int64_t rankAt(int64_t node, int64_t place) const {
    return node * perNode() + place;
  }
};

/// Two levels have the bits of one where each node is a subtree of
///   tree(lo, hi) = tree(lo, mid) + tree(mid, hi), mid = lo + (hi - lo + 1) / 2
/// (abi.def): its value is then computed from its ranks alone, and held in the
/// type that all inner values have, in which it can be sent. The rest of the
/// tree is the tree over nodes. N = nodes * perNode ranks are halved without a
/// rest while an even number of nodes is left, so nodes are subtrees where
/// their number is a power of two; where it is not, some half cuts a node, as
/// perNode ranks > 1 are never one leaf.
constexpr bool hasTwoLevels(int64_t nodes, int64_t perNode) {
  return nodes > 1 && perNode > 1 && (nodes & (nodes - 1)) == 0;
}

/// How sums over `ranks` ranks are placed of which the i-th is on node
/// nodeOf(i), any number that tells nodes apart.
template <typename NodeOf>
SumPlacement placeSums(int64_t ranks, const NodeOf &nodeOf) {
  const SumPlacement oneLevel = {ranks, 1};
  int64_t perNode = 1;
  while (perNode < ranks && nodeOf(perNode) == nodeOf(0))
    ++perNode;
  SumPlacement placement = {ranks, ranks / perNode};
  if (ranks % perNode != 0 || !hasTwoLevels(placement.nodes, perNode))
    return oneLevel;
  for (int64_t node = 0; node < placement.nodes; ++node) {
    int64_t first = placement.rankAt(node, 0);
    for (int64_t place = 1; place < perNode; ++place)
      if (nodeOf(first + place) != nodeOf(first))
        return oneLevel;
    for (int64_t before = 0; before < node; ++before)
      if (nodeOf(placement.rankAt(before, 0)) == nodeOf(first))
        return oneLevel;
  }
  return placement;
}

/// How many times a ring's bytes a reduce_scatter sends between nodes, each
/// element in its own type: 0 where all ranks are on one. With one level each
/// rank sends others their elements; a ring in the group's order sends the sum
/// of all but one rank's from each node to the next.
template <typename NodeOf>
double getRingRatio(int64_t ranks, const NodeOf &nodeOf) {
  int64_t sent = 0, borders = 0;
  for (int64_t rank = 0; rank < ranks; ++rank) {
    for (int64_t other = 0; other < ranks; ++other)
      sent += nodeOf(other) != nodeOf(rank);
    borders += nodeOf(rank) != nodeOf((rank + 1) % ranks);
  }
  return borders ? double(sent) / double(borders * (ranks - 1)) : 0;
}

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

/// Bytes of an element, and of a sum of some ranks' elements that is not
/// rounded: narrow floats are added in F32, integers wrap around in their type.
struct SumBytes {
  int64_t element, partial;
  static constexpr SumBytes of(bool isFloat, int64_t elementBytes) {
    return {elementBytes,
            isFloat ? std::max<int64_t>(elementBytes, 4) : elementBytes};
  }
};

/// How one reduce_scatter or all_reduce is added up. Where `isDirect`, each
/// rank adds up all of it, otherwise a part, which of an all_reduce it then
/// sends to the others.
struct SumPlan {
  bool isScatter, isDirect;
  SumParts parts;
  SumBytes bytes;
  SumPlacement placement;

  /// What a rank adds up of its node: one sum for each node (of two levels, for
  /// the rank of its place there), or one of everything. The rank whose part
  /// the i-th is:
  int64_t sums() const { return isDirect ? 1 : placement.nodes; }
  int64_t owner(int64_t sum, int64_t place) const {
    return isDirect ? 0 : placement.rankAt(sum, place);
  }

  /// The memory that a rank needs: first what ranks of its node send for each
  /// of its sums, and when these have been added up, what other nodes send; of
  /// two levels then these sums.
  int64_t stride() const {
    return getReceivedStride(parts.length, bytes.element);
  }
  int64_t partialStride() const {
    return getReceivedStride(parts.length, bytes.partial);
  }
  int64_t receivedBytes() const {
    return std::max(sums() * (placement.perNode() - 1) * stride(),
                    (placement.nodes - 1) * partialStride());
  }
  int64_t memoryBytes() const {
    return receivedBytes() +
           (placement.nodes > 1 ? sums() * partialStride() : 0);
  }
};

inline SumPlan planReduceScatter(int64_t count, SumBytes bytes,
                                 SumPlacement placement) {
  return {true, false, {count * placement.ranks, count}, bytes, placement};
}

/// Each rank adds up all of a shorter all_reduce.
constexpr int64_t directSumBytes = int64_t(32) << 10;

inline SumPlan planAllReduce(int64_t count, SumBytes bytes,
                             SumPlacement placement) {
  if (count * bytes.element <= directSumBytes)
    return {false, true, {count, count}, bytes, placement};
  int64_t step = receivedAlignment / bytes.element;
  int64_t length = (count + placement.ranks - 1) / placement.ranks;
  return {false,
          false,
          {count, (length + step - 1) / step * step},
          bytes,
          placement};
}

/// A reduce_scatter, each of whose parts has `count` elements, or an all_reduce
/// of so many.
inline SumPlan planSum(bool isAllReduce, int64_t count, SumBytes bytes,
                       SumPlacement placement) {
  return isAllReduce ? planAllReduce(count, bytes, placement)
                     : planReduceScatter(count, bytes, placement);
}

} // namespace fsdp::rt

#endif // FSDP_RT_REDUCTIONS_H
