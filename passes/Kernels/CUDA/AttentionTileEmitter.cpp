//===- AttentionTileEmitter.cpp - Attention in float32 --------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "AttentionTileEmitter.h"

using namespace mlir;
using namespace mlir::fsdp;

/// Threads of each block, and the threads that share a row.
constexpr int64_t kThreads = 128, kRowThreads = 8;
constexpr int64_t kTileRows = kThreads / kRowThreads;
/// Columns of a tile, and scores of each thread.
constexpr int64_t kTileColumns = 32, kThreadScores = kTileColumns / kRowThreads;
/// Features in shared memory at a time.
constexpr int64_t kTileFeatures = 64;

/// Floats of a tile, of so many rows of at most kTileFeatures.
static int64_t getTileSize(int64_t rows, int64_t features) {
  return rows * (std::min(features, kTileFeatures) + 1);
}

/// Floats of shared memory.
static int64_t getSharedSize(const AttentionParts &parts) {
  int64_t head = parts.shape.getHead(), value = parts.shape.getValue();
  int64_t rows = kTileRows + kTileColumns;
  return getTileSize(rows, head) + getTileSize(rows, value) +
         2 * kTileRows * (kTileColumns + 1) + kTileColumns;
}

AttentionLaunch fsdp::getTileLaunch(const AttentionParts &parts,
                                    AttentionRows rows) {
  return {countRowTiles(parts, rows, kTileRows), kThreads,
          getSharedSize(parts) * int64_t(sizeof(float)),
          /*usesTensorCores=*/false};
}

AttentionTileEmitter::AttentionTileEmitter(const AttentionParts &parts,
                                           OpBuilder &builder, Location loc,
                                           ValueRange arguments, Value shared)
    : AttentionBlockEmitter(parts, builder, loc, arguments),
      shared(memref::ViewOp::create(
          builder, loc,
          MemRefType::get({getSharedSize(parts)}, builder.getF32Type(),
                          MemRefLayoutAttrInterface(),
                          cast<MemRefType>(shared.getType()).getMemorySpace()),
          shared, index(0), ValueRange{})) {}

void AttentionTileEmitter::beginBlock(AttentionRows rows) {
  enterBlock(rows, kTileRows, kTileColumns);
  int64_t head = parts.shape.getHead(), value = parts.shape.getValue();
  int64_t end = 0;
  auto take = [&](int64_t size) {
    int64_t begin = end;
    end += size;
    return begin;
  };
  auto place = [&](unsigned tensor, int64_t features) -> Part {
    return {tensor,
            take(getTileSize(isOfRows(tensor) ? kTileRows : kTileColumns,
                             features)),
            features};
  };
  q = place(kQ, head);
  k = place(kK, head);
  v = place(kV, value);
  dout = place(kDout, value);
  atWeights = take(kTileRows * (kTileColumns + 1));
  atGradients = take(kTileRows * (kTileColumns + 1));
  atDeltas = take(kTileColumns);

  row = arith::DivUIOp::create(builder, loc, thread, index(kRowThreads));
  lane = arith::RemUIOp::create(builder, loc, thread, index(kRowThreads));
}

Value AttentionTileEmitter::loadShared(int64_t at, Value i) {
  return memref::LoadOp::create(builder, loc, shared, add(i, index(at)));
}

void AttentionTileEmitter::storeShared(int64_t at, Value i, Value value) {
  memref::StoreOp::create(builder, loc, value, shared, add(i, index(at)));
}

Value AttentionTileEmitter::at(Value row, int64_t width, Value column) {
  return add(mul(row, width + 1), column);
}

//===----------------------------------------------------------------------===//
// Tiles
//===----------------------------------------------------------------------===//

/// Rows of a tile are read one after the other, features by neighbouring
/// threads.
void AttentionTileEmitter::loadTile(const Part &part, bool isOfRows,
                                    Value firstColumn, int64_t firstFeature) {
  int64_t width = std::min(kTileFeatures, part.features - firstFeature);
  int64_t count = isOfRows ? kTileRows : kTileColumns;
  emitLoop(thread, index(count * width), kThreads, {},
           [&](Value element, ValueRange) -> Values {
             Value i =
                 arith::DivUIOp::create(builder, loc, element, index(width));
             Value feature =
                 arith::RemUIOp::create(builder, loc, element, index(width));
             Point point = isOfRows ? getRow(add(firstRow, i))
                                    : getColumn(firstColumn, i);
             Value value =
                 load(part.tensor, point, add(feature, index(firstFeature)));
             storeShared(part.at, at(i, width, feature), value);
             return {};
           });
}

Value AttentionTileEmitter::getThreadColumn(int64_t score) {
  return add(lane, index(score * kRowThreads));
}

Value AttentionTileEmitter::selectColumn(Value firstColumn, int64_t score,
                                         Value value, Value otherwise) {
  Value exists = isColumn(firstColumn, getThreadColumn(score));
  return exists ? select(exists, value, otherwise) : value;
}

SmallVector<Value> AttentionTileEmitter::emitTiles(
    ValueRange init, llvm::function_ref<Values(Value, ValueRange)> body) {
  Value begin = getColumnBegin(), end = getColumnEnd();
  auto emitStretch = [&](Value first, ValueRange before) -> Values {
    return emitLoop(begin, end, kTileColumns, before,
                    [&](Value column, ValueRange before) -> Values {
                      columnsLeft = arith::SubIOp::create(
                          builder, loc, index(columnsOfStretch), column);
                      return body(first ? add(first, column) : column, before);
                    });
  };
  if (stretch == columnCount)
    return emitStretch(Value(), init);
  return emitLoop(index(0), index(columnCount), stretch, init, emitStretch);
}

SmallVector<Value> AttentionTileEmitter::multiply(const Part &rows,
                                                  const Part &columns,
                                                  Value firstColumn) {
  Values sums(kThreadScores, scalar(0));
  for (int64_t first = 0; first < rows.features; first += kTileFeatures) {
    int64_t width = std::min(kTileFeatures, rows.features - first);
    // Others may still read what lies there.
    barrier();
    if (!isWhole(rows))
      loadTile(rows, /*isOfRows=*/true, firstColumn, first);
    loadTile(columns, /*isOfRows=*/false, firstColumn, first);
    barrier();
    sums = emitLoop(
        index(0), index(width), 1, sums,
        [&](Value feature, ValueRange before) -> Values {
          Value factor = loadShared(rows.at, at(row, width, feature));
          Values after;
          for (int64_t i = 0; i != kThreadScores; ++i)
            after.push_back(
                addF(before[i],
                     mulF(factor, loadShared(columns.at, at(getThreadColumn(i),
                                                            width, feature)))));
          return after;
        });
  }
  return sums;
}

bool AttentionTileEmitter::isWhole(const Part &part) const {
  return part.features <= kTileFeatures;
}

/// Features of each thread among so many.
int64_t AttentionTileEmitter::countFeatures(int64_t features) const {
  int64_t whole = features / kTileFeatures, rest = features % kTileFeatures;
  return whole * (kTileFeatures / kRowThreads) +
         llvm::divideCeil(rest, kRowThreads);
}

SmallVector<Value> AttentionTileEmitter::accumulate(int64_t weights,
                                                    const Part &columns,
                                                    Value firstColumn,
                                                    bool isLoaded,
                                                    ValueRange sums) {
  Value end = least(columnsLeft, index(kTileColumns));
  Values after;
  for (int64_t first = 0; first < columns.features; first += kTileFeatures) {
    int64_t width = std::min(kTileFeatures, columns.features - first);
    // Weights are those of all threads of the row.
    barrier();
    if (!isLoaded || !isWhole(columns)) {
      loadTile(columns, /*isOfRows=*/false, firstColumn, first);
      barrier();
    }
    int64_t count = countFeatures(width);
    Values part = emitLoop(
        index(0), end, 1, sums.slice(after.size(), count),
        [&](Value column, ValueRange before) -> Values {
          Value weight = loadShared(weights, at(row, kTileColumns, column));
          Values sum;
          for (int64_t i = 0; i != count; ++i) {
            // Beyond the last feature, one that nobody stores.
            Value feature = least(getThreadColumn(i), index(width - 1));
            sum.push_back(addF(
                before[i], mulF(weight, loadShared(columns.at, at(column, width,
                                                                  feature)))));
          }
          return sum;
        });
    llvm::append_range(after, part);
  }
  return after;
}

void AttentionTileEmitter::emitFeatures(
    int64_t features, llvm::function_ref<void(int64_t, Value)> body) {
  Value isRow = isBelow(add(firstRow, row), index(rowCount));
  int64_t which = 0;
  for (int64_t first = 0; first < features; first += kTileFeatures) {
    int64_t width = std::min(kTileFeatures, features - first);
    for (int64_t i = 0, e = countFeatures(width); i != e; ++i, ++which) {
      Value feature = getThreadColumn(i);
      Value exists = arith::AndIOp::create(builder, loc, isRow,
                                           isBelow(feature, index(width)));
      emitIf(exists, [&] { body(which, add(feature, index(first))); });
    }
  }
}

Value AttentionTileEmitter::emitDelta(const Point &query, Value which,
                                      int64_t threads) {
  Value sum =
      emitLoop(which, index(parts.shape.getValue()), threads, {scalar(0)},
               [&](Value feature, ValueRange before) -> Values {
                 return {addF(before[0], mulF(load(kDout, query, feature),
                                              load(kOut, query, feature)))};
               })[0];
  return reduce(sum, vector::CombiningKind::ADD, threads);
}

//===----------------------------------------------------------------------===//
// What blocks compute
//===----------------------------------------------------------------------===//

void AttentionTileEmitter::emitOut() {
  beginBlock(AttentionRows::Out);
  int64_t width = parts.shape.getValue();
  if (isWhole(q))
    loadTile(q, /*isOfRows=*/true, Value(), 0);
  Point query = getRow(add(firstRow, row));
  // The maximum, the sum and each feature so far.
  Values init(2 + countFeatures(width), scalar(0));
  init[0] = minusInfinity();
  Values sums = emitTiles(init, [&](Value first, ValueRange before) -> Values {
    Values scores = multiply(q, k, first);
    Value highest = minusInfinity();
    for (auto [i, score] : llvm::enumerate(scores)) {
      Point point = join(query, getColumn(first, getThreadColumn(i)));
      Value scaled = mulF(score, scalar(parts.scale));
      score = selectColumn(first, i, evaluate(*parts.score, {scaled}, point),
                           minusInfinity());
      // What is no number never wins; it shows in the sum.
      highest = arith::MaxNumFOp::create(builder, loc, highest, score);
    }
    highest = reduce(highest, vector::CombiningKind::MAXNUMF, kRowThreads);
    Value maximum = arith::MaxNumFOp::create(builder, loc, before[0], highest);
    Value reference = getReference(maximum);
    Value correction = expF(subF(before[0], reference));
    Value sum = scalar(0);
    for (auto [i, score] : llvm::enumerate(scores)) {
      Value weight =
          selectColumn(first, i, expF(subF(score, reference)), scalar(0));
      Point point = join(query, getColumn(first, getThreadColumn(i)));
      storeShared(atWeights, at(row, kTileColumns, getThreadColumn(i)),
                  mulFactor(weight, getFactorAt(point)));
      sum = addF(sum, weight);
    }
    sum = reduce(sum, vector::CombiningKind::ADD, kRowThreads);
    Values after = {maximum, addF(mulF(before[1], correction), sum)};
    Values features;
    for (Value feature : before.drop_front(2))
      features.push_back(mulF(feature, correction));
    llvm::append_range(after, accumulate(atWeights, v, first,
                                         /*isLoaded=*/false, features));
    return after;
  });
  Value maximum = sums[0], sum = sums[1];
  Value inverse, isMasked;
  std::tie(inverse, isMasked) = getInverse(maximum, sum);
  if (parts.exists(kOut))
    emitFeatures(width, [&](int64_t i, Value feature) {
      store(kOut, query, feature, mulF(sums[2 + i], inverse));
    });
  if (!parts.hasStats)
    return;
  Value isFirst = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq,
                                        lane, index(0));
  isFirst = arith::AndIOp::create(builder, loc, isFirst,
                                  isBelow(add(firstRow, row), index(rowCount)));
  emitIf(isFirst, [&] { storeStats(query, maximum, inverse, isMasked); });
}

void AttentionTileEmitter::emitDq() {
  beginBlock(AttentionRows::Dq);
  int64_t head = parts.shape.getHead();
  if (isWhole(q))
    loadTile(q, /*isOfRows=*/true, Value(), 0);
  if (isWhole(dout))
    loadTile(dout, /*isOfRows=*/true, Value(), 0);
  Point query = getRow(add(firstRow, row));
  Statistics statistics{loadStats(query, /*isInverse=*/false),
                        loadStats(query, /*isInverse=*/true),
                        emitDelta(query, lane, kRowThreads)};
  Values init(countFeatures(head), scalar(0));
  Values sums = emitTiles(init, [&](Value first, ValueRange before) -> Values {
    Values scores = multiply(q, k, first);
    Values gradients = multiply(dout, v, first);
    for (auto [i, score] : llvm::enumerate(scores)) {
      Point point = join(query, getColumn(first, getThreadColumn(i)));
      Value raw = mulF(score, scalar(parts.scale));
      Value gradient =
          emitGradient(point, raw, gradients[i], statistics).second;
      storeShared(atGradients, at(row, kTileColumns, getThreadColumn(i)),
                  selectColumn(first, i, gradient, scalar(0)));
    }
    return accumulate(atGradients, k, first, /*isLoaded=*/true, before);
  });
  emitFeatures(head, [&](int64_t i, Value feature) {
    store(kDq, query, feature, mulF(sums[i], scalar(parts.dqScale)));
  });
}

void AttentionTileEmitter::emitDkDv() {
  beginBlock(AttentionRows::DkDv);
  int64_t head = parts.shape.getHead(), width = parts.shape.getValue();
  int64_t headCount = parts.exists(kDk) ? countFeatures(head) : 0;
  int64_t widthCount = parts.exists(kDv) ? countFeatures(width) : 0;
  if (isWhole(k))
    loadTile(k, /*isOfRows=*/true, Value(), 0);
  if (isWhole(v))
    loadTile(v, /*isOfRows=*/true, Value(), 0);
  Point key = getRow(add(firstRow, row));
  // Neighbours that add up the features of one column.
  constexpr int64_t kColumnThreads = kThreads / kTileColumns;
  Value column =
      arith::DivUIOp::create(builder, loc, thread, index(kColumnThreads));
  Value part =
      arith::RemUIOp::create(builder, loc, thread, index(kColumnThreads));
  Value isFirst = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq,
                                        part, index(0));
  Values init(headCount + widthCount, scalar(0));
  Values sums = emitTiles(init, [&](Value first, ValueRange before) -> Values {
    Value delta = emitDelta(getColumn(first, column), part, kColumnThreads);
    emitIf(isFirst, [&] { storeShared(atDeltas, column, delta); });
    Values scores = multiply(k, q, first);
    Values gradients = multiply(v, dout, first);
    for (auto [i, score] : llvm::enumerate(scores)) {
      Value at = getThreadColumn(i);
      Point point = join(key, getColumn(first, at));
      Value raw = mulF(score, scalar(parts.scale));
      Statistics statistics{loadStats(point, /*isInverse=*/false),
                            loadStats(point, /*isInverse=*/true),
                            loadShared(atDeltas, at)};
      auto [weight, gradient] =
          emitGradient(point, raw, gradients[i], statistics);
      Value place = this->at(row, kTileColumns, at);
      storeShared(atWeights, place, selectColumn(first, i, weight, scalar(0)));
      storeShared(atGradients, place,
                  selectColumn(first, i, gradient, scalar(0)));
    }
    Values after;
    if (headCount != 0)
      after = accumulate(atGradients, q, first, /*isLoaded=*/true,
                         before.take_front(headCount));
    if (widthCount != 0)
      llvm::append_range(after, accumulate(atWeights, dout, first,
                                           /*isLoaded=*/true,
                                           before.take_back(widthCount)));
    return after;
  });
  emitFeatures(headCount != 0 ? head : 0, [&](int64_t i, Value feature) {
    store(kDk, key, feature, mulF(sums[i], scalar(parts.dkScale)));
  });
  emitFeatures(widthCount != 0 ? width : 0, [&](int64_t i, Value feature) {
    store(kDv, key, feature, sums[headCount + i]);
  });
}
