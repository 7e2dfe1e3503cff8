//===- AttentionMatrixMemory.cpp - Tiles in shared memory -----------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "AttentionMatrixEmitter.h"

using namespace mlir;
using namespace mlir::fsdp;

/// Copies that are not a loop.
static constexpr int64_t kMostUnrolled = 8;

Value AttentionMatrixEmitter::getPointer(unsigned tensor) {
  return createPointer(builder, loc, arguments[tensor]);
}

SmallVector<Value> AttentionMatrixEmitter::emitByVectors(
    ArrayRef<unsigned> tensors, TypeRange types,
    llvm::function_ref<Values(int64_t)> body) {
  int64_t size = 8;
  for (unsigned tensor : tensors)
    size = std::min(size, getVectorSize(parts, tensor));
  if (size == 1)
    return body(1);
  Value areAligned;
  for (unsigned tensor : tensors) {
    Value one = isAligned(builder, loc, getPointer(tensor), 2 * size);
    areAligned =
        areAligned ? Value(arith::AndIOp::create(builder, loc, areAligned, one))
                   : one;
  }
  auto branch = scf::IfOp::create(builder, loc, types, areAligned,
                                  /*addThenBlock=*/true, /*addElseBlock=*/true);
  auto fill = [&](Block *block, int64_t count) {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(block);
    Values results = body(count);
    scf::YieldOp::create(builder, loc, results);
  };
  fill(branch.thenBlock(), size);
  fill(branch.elseBlock(), 1);
  return llvm::to_vector_of<Value>(branch.getResults());
}

/// Neighbouring threads copy `size` neighbouring features each, columns of two
/// stages without waiting where these are 16 bytes. Features and columns beyond
/// the last ones are 0; of rows beyond the last one nothing is stored.
void AttentionMatrixEmitter::copyTile(const Part &part, const Tile &tile,
                                      Value firstFeature, int64_t width,
                                      int64_t size) {
  bool isRows = isOfRows(part.tensor);
  int64_t perRow = width / size, threads = tiles.getThreads();
  int64_t total = (isRows ? tiles.getRows() : tiles.columns) * perRow;
  std::optional<int64_t> first = getConstantIntValue(firstFeature);
  Value pointer = getPointer(part.tensor);
  bool isStaged = !isRows && tiles.stages > 1;
  Value place = index(part.at);
  if (isStaged)
    place = add(place, getStage(tile, tiles.columnNumbers));
  auto copyPiece = [&](Value i, Value at) {
    Value feature = add(firstFeature, at), exists;
    if (!first || *first + width > part.features) {
      exists = isBelow(feature, index(part.features));
      feature = select(exists, feature, index(0));
    }
    Point point = isRows ? getRow(add(firstRow, i)) : getColumn(tile.first, i);
    if (Value isInside = isRows ? Value() : isColumn(tile.first, i))
      exists =
          exists ? Value(arith::AndIOp::create(builder, loc, exists, isInside))
                 : isInside;
    Value from = getElement(part.tensor, point, feature);
    Value to = add(mul(i, part.getStride()), add(at, place));
    if (isStaged && size == 8) {
      beginCopy(builder, loc, pointer, from, shared, to, exists);
      return;
    }
    Value bits = loadBits(builder, loc, pointer, from, size);
    if (exists)
      bits = select(exists, bits,
                    arith::ConstantOp::create(
                        builder, loc, builder.getZeroAttr(bits.getType())));
    storeBits(builder, loc, bits, shared, to);
  };
  auto getRowOfPiece = [&](Value number) -> Value {
    return arith::DivUIOp::create(builder, loc, number, index(perRow));
  };
  auto getFeatureOfPiece = [&](Value number) {
    return mul(arith::RemUIOp::create(builder, loc, number, index(perRow)),
               size);
  };
  auto copy = [&](Value number) {
    copyPiece(getRowOfPiece(number), getFeatureOfPiece(number));
  };
  if (total > kMostUnrolled * threads || size == 1) {
    emitLoop(thread, index(total), threads, {},
             [&](Value number, ValueRange) -> Values {
               copy(number);
               return {};
             });
    return;
  }
  for (int64_t begin = 0; begin < total; begin += threads) {
    Value number = add(thread, index(begin));
    // The same features of rows that lie equally far apart.
    if (begin + threads <= total && threads % perRow == 0)
      copyPiece(add(getRowOfPiece(thread), index(begin / perRow)),
                getFeatureOfPiece(thread));
    else if (begin + threads <= total)
      copy(number);
    else
      emitIf(isBelow(number, index(total)), [&] { copy(number); });
  }
}

void AttentionMatrixEmitter::loadTile(const Part &part, const Tile &tile,
                                      Value firstFeature, int64_t width) {
  emitByVectors(part.tensor, {}, [&](int64_t size) -> Values {
    copyTile(part, tile, firstFeature, width, size);
    return {};
  });
}

void AttentionMatrixEmitter::loadRows(ArrayRef<Part> rows) {
  for (const Part &part : rows)
    if (part.isWhole())
      loadTile(part, {}, index(0), part.chunk);
}

Value AttentionMatrixEmitter::getStage(const Tile &tile, int64_t numbers) {
  Value number =
      arith::DivUIOp::create(builder, loc, tile.at, index(tiles.columns));
  return mul(arith::RemUIOp::create(builder, loc, number, index(tiles.stages)),
             numbers);
}

void AttentionMatrixEmitter::loadColumns(ArrayRef<Part> columns,
                                         const Tile &tile,
                                         bool withStatistics) {
  for (const Part &part : columns)
    if (part.isWhole())
      loadTile(part, tile, index(0), part.chunk);
  if (withStatistics)
    loadStatistics(tile);
}

SmallVector<Value> AttentionMatrixEmitter::emitTiles(
    ArrayRef<Part> columns, bool withStatistics, ValueRange init,
    llvm::function_ref<Values(Value, ValueRange)> body) {
  Tile begin = getFirstTile();
  Value end = getTileEnd();
  bool loads = withStatistics || llvm::any_of(columns, [](const Part &part) {
                 return part.isWhole();
               });
  if (tiles.stages == 1)
    return emitTileLoop(
        begin, end, init,
        [&](const Tile &tile, const Tile &, ValueRange before) -> Values {
          if (loads) {
            // Others may still read what lies there.
            barrier();
            loadColumns(columns, tile, withStatistics);
            barrier();
          }
          return body(tile.first, before);
        });
  auto loadAhead = [&](const Tile &tile) {
    emitIf(isBelow(tile.at, end), [&] {
      loadColumns(columns, tile, withStatistics);
      endCopies(builder, loc);
    });
  };
  loadAhead(begin);
  return emitTileLoop(
      begin, end, init,
      [&](const Tile &tile, const Tile &next, ValueRange before) -> Values {
        waitForCopies(builder, loc);
        barrier();
        loadAhead(next);
        stage = getStage(tile, tiles.columnNumbers);
        statisticsStage = getStage(tile, 3 * tiles.columns);
        return body(tile.first, before);
      });
}

Value AttentionMatrixEmitter::emitDelta(const Point &query, Value which,
                                        int64_t threads) {
  Value sum =
      emitByVectors({kDout, kOut}, builder.getF32Type(), [&](int64_t size) {
        auto loadFloats = [&](unsigned tensor, Value feature) -> Values {
          if (size == 1)
            return {load(tensor, query, feature)};
          Value bits = loadBits(builder, loc, getPointer(tensor),
                                getElement(tensor, query, feature), size);
          return unpackFloats(builder, loc, bits, size,
                              parts.types[tensor].getElementType());
        };
        return emitLoop(
            mul(which, size), index(parts.shape.getValue()), threads * size,
            {scalar(0)}, [&](Value feature, ValueRange before) -> Values {
              Value sum = before[0];
              for (auto [a, b] : llvm::zip(loadFloats(kDout, feature),
                                           loadFloats(kOut, feature)))
                sum = addF(sum, mulF(a, b));
              return {sum};
            });
      })[0];
  return reduce(sum, vector::CombiningKind::ADD, threads);
}

/// Statistics of a tile's columns, each by as many neighbours.
void AttentionMatrixEmitter::loadStatistics(const Tile &tile) {
  if (parts.getRowValues() != 0)
    return copyRowValues(tile);
  int64_t threads = tiles.getThreads() / tiles.columns;
  Value column = arith::DivUIOp::create(builder, loc, thread, index(threads));
  Value which = arith::RemUIOp::create(builder, loc, thread, index(threads));
  Point query = getColumn(tile.first, column);
  Value delta = emitDelta(query, which, threads);
  Value isFirst = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq,
                                        which, index(0));
  emitIf(isFirst, [&] {
    Value maximum = loadStats(query, /*isInverse=*/false);
    Value inverse = loadStats(query, /*isInverse=*/true);
    SmallVector<Value> all = {delta};
    if (isFolded())
      all.push_back(getNegatedLogarithm(maximum, inverse));
    else
      all.append({maximum, inverse});
    Value place = add(column, getStage(tile, 3 * tiles.columns));
    for (auto [i, value] : llvm::enumerate(all))
      memref::StoreOp::create(builder, loc, value, statistics,
                              add(place, index(i * tiles.columns)));
  });
}

/// A thread for each column. Of columns beyond the last one all is 0.
void AttentionMatrixEmitter::copyRowValues(const Tile &tile) {
  emitIf(isBelow(thread, index(tiles.columns)), [&] {
    Point query = getColumn(tile.first, thread);
    Value exists = isColumn(tile.first, thread);
    Value stats = arguments[parts.types.size()];
    SmallVector<std::pair<Value, Value>> sources = {
        {getWorkspace(), getRowValueAddress(query, kDelta)}};
    if (isFolded())
      sources.push_back(
          {getWorkspace(), getRowValueAddress(query, kLogarithm)});
    else
      sources.append({{stats, getStatsAddress(query, /*isInverse=*/false)},
                      {stats, getStatsAddress(query, /*isInverse=*/true)}});
    Value place = add(thread, getStage(tile, 3 * tiles.columns));
    for (auto [i, source] : llvm::enumerate(sources)) {
      auto [from, address] = source;
      Value to = add(place, index(i * tiles.columns));
      if (tiles.stages > 1) {
        beginCopy(builder, loc, createPointer(builder, loc, from),
                  mul(address, 2), statisticsPointer, mul(to, 2), exists,
                  sizeof(float));
        continue;
      }
      Value value = memref::LoadOp::create(builder, loc, from, address);
      if (exists)
        value = select(exists, value, scalar(0));
      memref::StoreOp::create(builder, loc, value, statistics, to);
    }
  });
}
