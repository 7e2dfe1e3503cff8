//===- cpu-attention.h - How processors cut attention into tiles -*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The interface between the compiler, which emits a function of a tile of scores
// (fsdp-emit-attention), and the runtime's device `cpu`, which multiplies tile by
// tile and calls that function in between. C++17, included by both; no other
// includes.
//
// A tile function is an fsdp_rt_kernel_fn. It handles rows [begin, end) of a
// tile of scores, float32, `tileKeys` apart. Its operands are, of the forward
// pass:
//
//   position   int64_t[kPositionSize]: four indices of the batch, outermost
//              first, the first query, the first key, the keys of this tile
//   scores     in: scale * q k^T; out: exp(score function - maximum)
//   rows       four times tileQueries floats: the maximum so far, the sum of
//              exponentials so far, both updated; exp(old maximum - new one),
//              with which what was summed before is multiplied; and what the
//              function likes
//   captured tensors, from their first element
//
// and of the backward pass:
//
//   position   the same
//   scores     in: scale * q k^T; out: the probabilities
//   gradients  in: the probabilities' gradients; out: those of q k^T
//   rows       four times tileQueries floats: the maximum, 1 / the sum, the sum
//              of the probabilities times their gradients, and nothing
//   captured tensors, from their first element
//
// What lies behind the last row or column of a tile may be written; nothing
// reads it. Several products may have their rows in one tile: the function is
// called for each, first to last, with scores, gradients and rows that begin at
// its first row.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_CPU_ATTENTION_H
#define FSDP_RT_CPU_ATTENTION_H

#include <cstdint>

namespace fsdp::rt {

constexpr int64_t kMaxTileQueries = 128, kMaxTileKeys = 128;
/// Rows of a tile begin at multiples of so many floats.
constexpr int64_t kTileUnit = 16;
constexpr int64_t kPositionSize = 8;
constexpr int64_t kFirstQuery = 4, kFirstKey = 5, kTileColumns = 6;
/// Floats per row of a tile.
constexpr int64_t kTileRowFields = 4;
/// Numbers per tensor in a descriptor.
constexpr int64_t kTensorFields = 8;

constexpr int64_t roundUpToTile(int64_t size) {
  return (size + kTileUnit - 1) / kTileUnit * kTileUnit;
}

/// The tiles of an attention of that many queries or keys.
constexpr int64_t getTileSize(int64_t size, int64_t most) {
  return roundUpToTile(size) < most ? roundUpToTile(size) : most;
}

/// The tiles' queries, where that many products are to be made: where one has
/// few, those of several that share their keys are one tile.
constexpr int64_t getQueryTile(int64_t queries, int64_t products) {
  return products < kMaxTileQueries
             ? getTileSize(queries * products, kMaxTileQueries)
             : kMaxTileQueries;
}

/// Where in a thread's scratch memory everything lies, in floats.
struct AttentionScratch {
  int64_t scores = 0, gradients = 0, rows = 0, q = 0, k = 0, v = 0, out = 0,
          dout = 0, dq = 0, dk = 0, dv = 0, size = 0;
};

constexpr AttentionScratch layOutAttention(bool backward, int64_t keys,
                                           int64_t head, int64_t value,
                                           int64_t tileQueries,
                                           int64_t tileKeys) {
  AttentionScratch at;
  int64_t end = 0;
  auto take = [&end](int64_t rows, int64_t columns) {
    int64_t begin = end;
    end += roundUpToTile(rows * columns);
    return begin;
  };
  at.scores = take(tileQueries, tileKeys);
  at.rows = take(kTileRowFields, tileQueries);
  at.q = take(tileQueries, head);
  at.k = take(tileKeys, head);
  at.v = take(tileKeys, value);
  at.out = take(tileQueries, value);
  if (backward) {
    at.gradients = take(tileQueries, tileKeys);
    at.dout = take(tileQueries, value);
    at.dq = take(tileQueries, head);
    at.dk = take(keys, head);
    at.dv = take(keys, value);
  }
  at.size = end;
  return at;
}

} // namespace fsdp::rt

#endif // FSDP_RT_CPU_ATTENTION_H
