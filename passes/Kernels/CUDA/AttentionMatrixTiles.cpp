//===- AttentionMatrixTiles.cpp - Tiles for tensor cores ------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "AttentionMatrixTiles.h"

#include <numeric>

using namespace mlir;
using namespace mlir::fsdp;

/// Features in shared memory at a time, and of a result in a thread's registers
/// (half as many floats for a warp's 16 rows).
static constexpr int64_t kMostFeatures = 128;
static constexpr int64_t kMostWarps = 4, kMostColumns = 64, kMostStages = 2;
/// The most rows of a tile: with more, a thread has too few registers for its
/// results.
static constexpr int64_t kMostTunedRows = 128;
/// The most shared memory of a block, which all cards of sm_80 and later give
/// to a block that asks for it.
static constexpr int64_t kMostSharedBytes = 99 * 1024;
/// Of two blocks on a multiprocessor of sm_80, the smallest that trains large
/// models: 164 KiB, of which the driver takes 1 KiB a block.
static constexpr int64_t kSharedBytesOfTwo = 81 * 1024;

bool fsdp::canUseTensorCores(const AttentionParts &parts) {
  Type type = parts.types[kQ].getElementType();
  auto hasType = [&](unsigned tensor) {
    return parts.types[tensor].getElementType() == type;
  };
  return (type.isBF16() || type.isF16()) && hasType(kK) && hasType(kV) &&
         (!parts.isBackward() || hasType(kDout));
}

int64_t fsdp::getVectorSize(const AttentionParts &parts, unsigned tensor) {
  StridedAttr view = parts.views[tensor];
  if (view.getColumnStride() != 1 ||
      parts.types[tensor].getElementTypeBitWidth() != 16)
    return 1;
  int64_t features = tensor == kQ || tensor == kK ? parts.shape.getHead()
                                                  : parts.shape.getValue();
  int64_t size = std::gcd(std::gcd<int64_t>(8, features), view.getRowStride());
  for (int64_t stride : view.getBatchStrides())
    size = std::gcd(size, stride);
  return size;
}

static int64_t getChunk(int64_t features) {
  return std::min<int64_t>(llvm::alignTo(features, kMatrixDepth),
                           kMostFeatures);
}

int64_t AttentionMatrixTiles::getGroupWidth(int64_t features, int64_t groups) {
  return llvm::alignTo(llvm::divideCeil(features, groups), kMatrixDepth);
}

namespace {
/// What fsdp.tuning says of a function's tiles, at most.
struct Tuned {
  int64_t rows, columns, stages;
};
} // namespace

static std::optional<Tuned> getTuned(const AttentionParts &parts,
                                     AttentionRows rows) {
  StringRef name = rows == AttentionRows::Out  ? "forward"
                   : rows == AttentionRows::Dq ? "dq"
                                               : "dkdv";
  auto tile = parts.tuning ? parts.tuning.getAs<DenseI64ArrayAttr>(name)
                           : DenseI64ArrayAttr();
  if (!tile)
    return std::nullopt;
  return Tuned{tile[0], tile[1], tile[2]};
}

std::string fsdp::findUnfitTuning(const AttentionParts &parts,
                                  AttentionRows rows) {
  auto tuned = getTuned(parts, rows);
  if (!tuned)
    return "";
  auto isPower = [](int64_t value) {
    return value >= kMatrixRows && llvm::isPowerOf2_64(uint64_t(value));
  };
  auto [most, columns, stages] = *tuned;
  if (stages < 1 || stages > kMostStages)
    return "expected 1 or " + std::to_string(kMostStages) + " stages, got " +
           std::to_string(stages);
  if (!isPower(most) || most > kMostTunedRows || !isPower(columns) ||
      columns > 2 * most)
    return "expected rows of a power of two from 16 to " +
           std::to_string(kMostTunedRows) +
           " and columns of one from 16 to twice the rows, got " +
           std::to_string(most) + " and " + std::to_string(columns);
  int64_t bytes = AttentionMatrixTiles(parts, rows).sharedBytes;
  if (bytes > kMostSharedBytes)
    return "expected at most " + std::to_string(kMostSharedBytes) +
           " bytes of shared memory, which all cards have, got " +
           std::to_string(bytes) + " for tiles of " + std::to_string(most) +
           " rows and " + std::to_string(columns) + " columns";
  return "";
}

std::string fsdp::describeTuning(const AttentionParts &parts,
                                 AttentionRows rows) {
  if (!getTuned(parts, rows))
    return "";
  AttentionMatrixTiles tiles(parts, rows);
  return "tiles of " + std::to_string(tiles.getRows()) + " rows and " +
         std::to_string(tiles.columns) + " columns in " +
         (tiles.stages == 1 ? "one stage" : "two stages") +
         ", as fsdp.tuning says";
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
  auto tuned = getTuned(parts, rows);
  // A power of two, so that threads divide evenly among columns.
  warps = std::min<int64_t>(
      llvm::PowerOf2Ceil(llvm::divideCeil(rowCount, kMatrixRows)),
      tuned ? tuned->rows / kMatrixRows : kMostWarps);
  // Scores and their gradients lie in registers beside the results: half as
  // many columns where these are twice as long.
  int64_t mostColumns = kMostColumns;
  if (parts.isBackward() && std::max(headChunk, valueChunk) > kMostFeatures / 2)
    mostColumns /= 2;
  if (tuned)
    mostColumns = tuned->columns;
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
  // What is copied by pieces of 16 bytes and in shared memory all at once.
  std::pair<unsigned, unsigned> copied =
      isOfKeys ? std::pair(kQ, kDout) : std::pair(kK, kV);
  bool canCopyAhead = columnCount > columns && head <= headChunk &&
                      value <= valueChunk &&
                      getVectorSize(parts, copied.first) == 8 &&
                      getVectorSize(parts, copied.second) == 8;
  stages = canCopyAhead ? (tuned ? tuned->stages : kMostStages) : 1;
  layOut(parts.isBackward(), isOfKeys);
  // Two tiles of half the columns leave room for another block.
  if (!tuned && stages > 1 && sharedBytes > kSharedBytesOfTwo) {
    columns /= 2;
    layOut(parts.isBackward(), isOfKeys);
  }
  if (stages > 1 && sharedBytes > kMostSharedBytes) {
    stages = 1;
    layOut(parts.isBackward(), isOfKeys);
  }
}

void AttentionMatrixTiles::layOut(bool isBackward, bool isOfKeys) {
  int64_t ofHead = getStride(headChunk), ofValue = getStride(valueChunk);
  int64_t rowNumbers = getRows() * (ofHead + (isBackward ? ofValue : 0));
  columnNumbers = columns * (ofHead + ofValue);
  atStatistics = 2 * (rowNumbers + stages * columnNumbers);
  sharedBytes = atStatistics;
  if (isOfKeys)
    sharedBytes += stages * 3 * columns * int64_t(sizeof(float));
}

AttentionLaunch fsdp::getMatrixLaunch(const AttentionParts &parts,
                                      AttentionRows rows) {
  AttentionMatrixTiles tiles(parts, rows);
  return {countRowTiles(parts, rows, tiles.getRows()) * tiles.getGroups(),
          tiles.getThreads(), tiles.sharedBytes, /*usesTensorCores=*/true};
}
