//===- AttentionMatrixTiles.cpp - Tiles for tensor cores ------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "AttentionMatrixTiles.h"

using namespace mlir;
using namespace mlir::fsdp;

/// Features in shared memory at a time, and of a result in a thread's registers
/// (half as many floats for a warp's 16 rows).
static constexpr int64_t kMostFeatures = 128;
static constexpr int64_t kMostWarps = 4, kMostColumns = 64;

bool fsdp::canUseTensorCores(const AttentionParts &parts) {
  Type type = parts.types[kQ].getElementType();
  auto hasType = [&](unsigned tensor) {
    return parts.types[tensor].getElementType() == type;
  };
  return (type.isBF16() || type.isF16()) && hasType(kK) && hasType(kV) &&
         (!parts.isBackward() || hasType(kDout));
}

static int64_t getChunk(int64_t features) {
  return std::min<int64_t>(llvm::alignTo(features, kMatrixDepth),
                           kMostFeatures);
}

int64_t AttentionMatrixTiles::getGroupWidth(int64_t features, int64_t groups) {
  return llvm::alignTo(llvm::divideCeil(features, groups), kMatrixDepth);
}

AttentionMatrixTiles::AttentionMatrixTiles(const AttentionParts &parts,
                                           AttentionRows rows) {
  int64_t head = parts.shape.getHead(), value = parts.shape.getValue();
  bool isOfKeys = rows == AttentionRows::DkDv;
  int64_t rowCount = parts.shape.getQueries();
  int64_t columnCount = parts.shape.getKeys();
  if (isOfKeys)
    std::swap(rowCount, columnCount);
  headChunk = getChunk(head);
  valueChunk = getChunk(value);
  // A power of two, so that threads divide evenly among columns.
  warps = std::min<int64_t>(
      llvm::PowerOf2Ceil(llvm::divideCeil(rowCount, kMatrixRows)), kMostWarps);
  // Scores and their gradients lie in registers beside the results: half as
  // many columns where these are twice as long.
  int64_t mostColumns = kMostColumns;
  if (parts.isBackward() && std::max(headChunk, valueChunk) > kMostFeatures / 2)
    mostColumns /= 2;
  columns = std::min<int64_t>(
      {int64_t(llvm::PowerOf2Ceil(std::max(columnCount, kMatrixDepth))),
       mostColumns, getThreads()});
  // Blocks of dk and dv have features of both.
  int64_t most = isOfKeys ? kMostFeatures / 2 : kMostFeatures;
  auto countGroups = [&](int64_t features) -> int64_t {
    return features <= kMostFeatures ? 1 : llvm::divideCeil(features, most);
  };
  if (rows == AttentionRows::Dq || (isOfKeys && parts.exists(kDk)))
    headGroups = countGroups(head);
  if (rows == AttentionRows::Out || (isOfKeys && parts.exists(kDv)))
    valueGroups = countGroups(value);
  int64_t rowsOfValues = parts.isBackward() ? getRows() + columns : columns;
  atStatistics = 2 * ((getRows() + columns) * getStride(headChunk) +
                      rowsOfValues * getStride(valueChunk));
  sharedBytes = atStatistics;
  if (isOfKeys)
    sharedBytes += 3 * columns * int64_t(sizeof(float));
}

AttentionLaunch fsdp::getMatrixLaunch(const AttentionParts &parts,
                                      AttentionRows rows) {
  AttentionMatrixTiles tiles(parts, rows);
  return {countRowTiles(parts, rows, tiles.getRows()) * tiles.getGroups(),
          tiles.getThreads(), tiles.sharedBytes, /*usesTensorCores=*/true};
}
