//===- AttentionMatrixTiles.h - Tiles for tensor cores ----------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_PASSES_KERNELS_CUDA_ATTENTIONMATRIXTILES_H
#define FSDP_PASSES_KERNELS_CUDA_ATTENTIONMATRIXTILES_H

#include "AttentionTiles.h"

namespace mlir::fsdp {

/// Rows that a warp multiplies, and the depth of a product.
constexpr int64_t kMatrixRows = 16, kMatrixDepth = 16;

/// Whether q, k, v and the output's gradient have elements of one type, which
/// tensor cores multiply.
bool canUseTensorCores(const AttentionParts &parts);

/// Elements of @tensor that lie side by side, at a multiple of their size in
/// every row if the first row's do; at most the 8 of 16 bytes.
int64_t getVectorSize(const AttentionParts &parts, unsigned tensor);

/// Why code of the function cannot have the shape that fsdp.tuning wants;
/// empty: it can, or nothing is wanted.
std::string findUnfitTuning(const AttentionParts &parts, AttentionRows rows);

/// The shape that fsdp.tuning decided; empty: none.
std::string describeTuning(const AttentionParts &parts, AttentionRows rows);

/// The sizes of what a block computes, from those of the attention and what
/// fsdp.tuning says.
struct AttentionMatrixTiles {
  AttentionMatrixTiles(const AttentionParts &parts, AttentionRows rows);

  /// Each warp has kMatrixRows rows.
  int64_t warps;
  /// Columns of a tile, a power of two.
  int64_t columns;
  /// Tiles of columns that shared memory holds: with two, the next one arrives
  /// (cp.async) while one is multiplied.
  int64_t stages = 1;
  /// Features of q and k, and of v and dout, that are in shared memory at a
  /// time.
  int64_t headChunk, valueChunk;
  /// Blocks among which features of the results are divided, per tile of rows;
  /// each computes the scores. 0 where the function has no such result.
  int64_t headGroups = 0, valueGroups = 0;
  /// Numbers of 16 bits of a tile of columns; bytes of shared memory, and where
  /// the columns' statistics begin.
  int64_t columnNumbers, sharedBytes, atStatistics;

  int64_t getRows() const { return warps * kMatrixRows; }
  int64_t getThreads() const { return warps * 32; }
  int64_t getGroups() const { return std::max(headGroups, valueGroups); }

  /// Numbers from one row in shared memory to the next, an odd multiple of 16
  /// bytes: eight rows begin in different banks.
  static int64_t getStride(int64_t chunk) { return chunk + 8; }
  /// Features of each of `groups` blocks.
  static int64_t getGroupWidth(int64_t features, int64_t groups);

private:
  /// Sets the sizes in shared memory, of as many stages.
  void layOut(bool isBackward, bool isOfKeys);
};

/// Grid, threads and bytes of shared memory of the function for `rows`.
AttentionLaunch getMatrixLaunch(const AttentionParts &parts,
                                AttentionRows rows);

} // namespace mlir::fsdp

#endif // FSDP_PASSES_KERNELS_CUDA_ATTENTIONMATRIXTILES_H
