//===- AttentionMatrixEmitter.cpp - Attention by tensor cores -------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "AttentionMatrixEmitter.h"
#include "MatrixInstructions.h"

using namespace mlir;
using namespace mlir::fsdp;

/// Copies that are not a loop.
static constexpr int64_t kMostUnrolled = 8;

//===----------------------------------------------------------------------===//
// Where a thread is
//===----------------------------------------------------------------------===//

AttentionMatrixEmitter::AttentionMatrixEmitter(const AttentionParts &parts,
                                               AttentionRows rows,
                                               OpBuilder &builder, Location loc,
                                               ValueRange arguments,
                                               Value shared)
    : AttentionBlockEmitter(parts, builder, loc, arguments), tiles(parts, rows),
      type(parts.types[kQ].getElementType()), memory(shared),
      shared(createPointer(builder, loc, shared)) {}

void AttentionMatrixEmitter::enter(AttentionRows rows) {
  groupNumber = enterBlock(rows, tiles.getRows(), tiles.columns);
  // Rows, then the stages of columns.
  int64_t endOfRows = 0, endOfColumns = tiles.atStatistics / 2 -
                                        tiles.stages * tiles.columnNumbers;
  auto place = [&](unsigned tensor, int64_t chunk, int64_t features) -> Part {
    bool isRows = isOfRows(tensor);
    int64_t &end = isRows ? endOfRows : endOfColumns;
    Part part{tensor, end, chunk, features};
    end += (isRows ? tiles.getRows() : tiles.columns) * part.getStride();
    return part;
  };
  q = place(kQ, tiles.headChunk, parts.shape.getHead());
  k = place(kK, tiles.headChunk, parts.shape.getHead());
  v = place(kV, tiles.valueChunk, parts.shape.getValue());
  if (parts.isBackward())
    dout = place(kDout, tiles.valueChunk, parts.shape.getValue());
  if (isOfKeys)
    statistics = memref::ViewOp::create(
        builder, loc,
        MemRefType::get({tiles.stages * 3 * tiles.columns},
                        builder.getF32Type(), MemRefLayoutAttrInterface(),
                        cast<MemRefType>(memory.getType()).getMemorySpace()),
        memory, index(tiles.atStatistics), ValueRange{});
  warp = arith::DivUIOp::create(builder, loc, thread, index(32));
  lane = arith::RemUIOp::create(builder, loc, thread, index(32));
  laneGroup = arith::DivUIOp::create(builder, loc, lane, index(4));
  pair = mul(arith::RemUIOp::create(builder, loc, lane, index(4)), 2);
}

AttentionMatrixEmitter::Group AttentionMatrixEmitter::getGroup(int64_t features,
                                                               int64_t groups) {
  if (groups == 0)
    return {};
  int64_t width = AttentionMatrixTiles::getGroupWidth(features, groups);
  if (groups == 1 && tiles.getGroups() == 1)
    return {index(0), Value(), width, features};
  Value number = least(groupNumber, index(groups - 1));
  Group result{mul(number, width), Value(), width, features};
  if (groups != tiles.getGroups())
    result.isMine = isBelow(groupNumber, index(groups));
  return result;
}

Value AttentionMatrixEmitter::getThreadRow(int64_t which) {
  return add(mul(warp, kMatrixRows), add(laneGroup, index(8 * which)));
}

std::array<AttentionMatrixEmitter::Point, 2>
AttentionMatrixEmitter::getThreadRows() {
  return {getRow(add(firstRow, getThreadRow(0))),
          getRow(add(firstRow, getThreadRow(1)))};
}

SmallVector<AttentionMatrixEmitter::Column>
AttentionMatrixEmitter::getColumns(Value first) {
  SmallVector<Column> columns;
  for (int64_t i = 0; i != tiles.columns / 4; ++i) {
    Column column;
    column.number = add(pair, index(i / 2 * 8 + i % 2));
    column.point = getColumn(first, column.number);
    column.exists = isColumn(first, column.number);
    columns.push_back(column);
  }
  return columns;
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

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
  auto copy = [&](Value number) {
    Value i = arith::DivUIOp::create(builder, loc, number, index(perRow));
    Value at =
        mul(arith::RemUIOp::create(builder, loc, number, index(perRow)), size);
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
    if (begin + threads <= total)
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

/// Maxima, inverses and deltas of a tile's columns, each by as many neighbours.
void AttentionMatrixEmitter::loadStatistics(const Tile &tile) {
  int64_t threads = tiles.getThreads() / tiles.columns;
  Value column = arith::DivUIOp::create(builder, loc, thread, index(threads));
  Value which = arith::RemUIOp::create(builder, loc, thread, index(threads));
  Point query = getColumn(tile.first, column);
  Value delta = emitDelta(query, which, threads);
  Value isFirst = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq,
                                        which, index(0));
  emitIf(isFirst, [&] {
    Value all[] = {loadStats(query, /*isInverse=*/false),
                   loadStats(query, /*isInverse=*/true), delta};
    Value place = add(column, getStage(tile, 3 * tiles.columns));
    for (auto [i, value] : llvm::enumerate(all))
      memref::StoreOp::create(builder, loc, value, statistics,
                              add(place, index(i * tiles.columns)));
  });
}

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

SmallVector<Value> AttentionMatrixEmitter::multiply(const Part &rows,
                                                    const Part &columns,
                                                    Value firstColumn) {
  // The row whose address a lane has for A, and for two of B.
  Value rowOfA = arith::RemUIOp::create(builder, loc, lane, index(16));
  Value half = mul(arith::DivUIOp::create(builder, loc, lane, index(16)), 8);
  Value eighth = arith::RemUIOp::create(builder, loc, lane, index(8));
  Value quarter = arith::RemUIOp::create(
      builder, loc, arith::DivUIOp::create(builder, loc, lane, index(8)),
      index(2));
  Value atA =
      add(mul(add(mul(warp, kMatrixRows), rowOfA), rows.getStride()), half);
  Value atB = add(mul(add(half, eighth), columns.getStride()), mul(quarter, 8));
  if (stage)
    atB = add(atB, stage);
  Values sums(tiles.columns / 2, scalar(0));
  for (int64_t first = 0; first < rows.features; first += rows.chunk) {
    int64_t width =
        std::min(rows.chunk,
                 int64_t(llvm::alignTo(rows.features - first, kMatrixDepth)));
    if (!rows.isWhole()) {
      barrier();
      loadTile(rows, {}, index(first), width);
      loadTile(columns, {Value(), firstColumn}, index(first), width);
      barrier();
    }
    for (int64_t depth = 0; depth < width; depth += kMatrixDepth) {
      Values a =
          loadMatrices(builder, loc, shared, add(atA, index(rows.at + depth)),
                       /*isTransposed=*/false);
      for (int64_t column = 0; column < tiles.columns; column += 16) {
        Values b = loadMatrices(
            builder, loc, shared,
            add(atB, index(columns.at + column * columns.getStride() + depth)),
            /*isTransposed=*/false);
        multiplyPair(a, b, MutableArrayRef<Value>(sums).slice(column / 2, 8));
      }
    }
  }
  return sums;
}

void AttentionMatrixEmitter::multiplyPair(ArrayRef<Value> a, ArrayRef<Value> b,
                                          MutableArrayRef<Value> sums) {
  for (int64_t i = 0; i != 2; ++i) {
    MutableArrayRef<Value> sum = sums.slice(4 * i, 4);
    llvm::copy(multiplyMatrices(builder, loc, a, b.slice(2 * i, 2),
                                ValueRange(sum), type),
               sum.begin());
  }
}

SmallVector<Value>
AttentionMatrixEmitter::packWeights(ArrayRef<Value> weights) {
  Values registers;
  for (size_t i = 0; i != weights.size(); i += 2)
    registers.push_back(
        packFloats(builder, loc, weights[i], weights[i + 1], type));
  return registers;
}

SmallVector<Value> AttentionMatrixEmitter::accumulate(ArrayRef<Value> weights,
                                                      const Part &columns,
                                                      Value firstColumn,
                                                      const Group &group,
                                                      ValueRange before) {
  Value first = group.first;
  if (!columns.isWhole()) {
    barrier();
    loadTile(columns, {Value(), firstColumn}, group.first, group.width);
    barrier();
    first = index(0);
  }
  Value row = arith::RemUIOp::create(builder, loc, lane, index(16));
  Value half = mul(arith::DivUIOp::create(builder, loc, lane, index(16)), 8);
  Value at = add(mul(row, columns.getStride()), add(half, first));
  if (stage)
    at = add(at, stage);
  Values sums(before);
  for (int64_t column = 0; column < tiles.columns; column += kMatrixDepth)
    for (int64_t feature = 0; feature < group.width; feature += 16) {
      Values b = loadMatrices(
          builder, loc, shared,
          add(at, index(columns.at + column * columns.getStride() + feature)),
          /*isTransposed=*/true);
      multiplyPair(weights.slice(column / 4, 4), b,
                   MutableArrayRef<Value>(sums).slice(feature / 2, 8));
    }
  return sums;
}

void AttentionMatrixEmitter::storeGroup(unsigned tensor,
                                        const std::array<Point, 2> &rows,
                                        const Group &group, ValueRange sums,
                                        const Rows &scales) {
  auto storeRow = [&](int64_t which) {
    for (int64_t i = 0; i != group.getSums(); ++i) {
      if (getRowOf(i) != which)
        continue;
      Value feature = add(group.first, add(pair, index(i / 4 * 8 + i % 2)));
      auto storeOne = [&] {
        store(tensor, rows[which], feature, mulF(sums[i], scales[which]));
      };
      if (i / 4 * 8 + 8 <= group.features && getConstantIntValue(group.first))
        storeOne();
      else
        emitIf(isBelow(feature, index(group.features)), storeOne);
    }
  };
  for (int64_t which = 0; which != 2; ++which) {
    Value exists = isBelow(add(firstRow, getThreadRow(which)), index(rowCount));
    if (group.isMine)
      exists = arith::AndIOp::create(builder, loc, exists, group.isMine);
    emitIf(exists, [&] { storeRow(which); });
  }
}

//===----------------------------------------------------------------------===//
// What blocks compute
//===----------------------------------------------------------------------===//

void AttentionMatrixEmitter::emitOut() {
  enter(AttentionRows::Out);
  Group features = getGroup(parts.shape.getValue(), tiles.valueGroups);
  loadRows(q);
  std::array<Point, 2> queries = getThreadRows();
  // Of both rows the maximum so far and the thread's part of the sum, and the
  // features.
  Values init(4 + features.getSums(), scalar(0));
  init[0] = init[1] = minusInfinity();
  Values sums = emitTiles(
      {k, v}, /*withStatistics=*/false, init,
      [&](Value first, ValueRange before) -> Values {
        Values scores = multiply(q, k, first);
        SmallVector<Column> columns = getColumns(first);
        Rows highest{minusInfinity(), minusInfinity()};
        for (auto [i, score] : llvm::enumerate(scores)) {
          const Column &column = columns[getColumnOf(i)];
          Value scaled = mulF(score, scalar(parts.scale));
          Value &most = highest[getRowOf(i)];
          score = evaluate(*parts.score, {scaled},
                           join(queries[getRowOf(i)], column.point));
          if (column.exists)
            score = select(column.exists, score, minusInfinity());
          // What is no number never wins; it shows in the sum.
          most = arith::MaxNumFOp::create(builder, loc, most, score);
        }
        Rows maximum, reference, correction, sum;
        for (int64_t row = 0; row != 2; ++row) {
          Value most = reduce(highest[row], vector::CombiningKind::MAXNUMF, 4);
          maximum[row] =
              arith::MaxNumFOp::create(builder, loc, before[row], most);
          reference[row] = getReference(maximum[row]);
          correction[row] = expF(subF(before[row], reference[row]));
          sum[row] = mulF(before[2 + row], correction[row]);
        }
        for (auto [i, score] : llvm::enumerate(scores)) {
          int64_t row = getRowOf(i);
          score = expF(subF(score, reference[row]));
          sum[row] = addF(sum[row], score);
        }
        Values corrected;
        for (auto [i, feature] : llvm::enumerate(before.drop_front(4)))
          corrected.push_back(mulF(feature, correction[getRowOf(i)]));
        Values after = {maximum[0], maximum[1], sum[0], sum[1]};
        llvm::append_range(after, accumulate(packWeights(scores), v, first,
                                             features, corrected));
        return after;
      });
  Rows inverse, isMasked;
  for (int64_t row = 0; row != 2; ++row)
    std::tie(inverse[row], isMasked[row]) = getInverse(
        sums[row], reduce(sums[2 + row], vector::CombiningKind::ADD, 4));
  if (parts.exists(kOut))
    storeGroup(kOut, queries, features, ArrayRef<Value>(sums).drop_front(4),
               inverse);
  if (!parts.hasStats)
    return;
  // By one thread of a row, and by one block.
  Value isFirst = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq,
                                        add(pair, groupNumber), index(0));
  for (int64_t row = 0; row != 2; ++row) {
    Value exists = isBelow(add(firstRow, getThreadRow(row)), index(rowCount));
    emitIf(arith::AndIOp::create(builder, loc, isFirst, exists), [&] {
      storeStats(queries[row], sums[row], inverse[row], isMasked[row]);
    });
  }
}

void AttentionMatrixEmitter::emitDq() {
  enter(AttentionRows::Dq);
  Group features = getGroup(parts.shape.getHead(), tiles.headGroups);
  loadRows({q, dout});
  std::array<Point, 2> queries = getThreadRows();
  std::array<Statistics, 2> ofRows;
  Value which = arith::RemUIOp::create(builder, loc, lane, index(4));
  for (int64_t row = 0; row != 2; ++row)
    ofRows[row] = {loadStats(queries[row], /*isInverse=*/false),
                   loadStats(queries[row], /*isInverse=*/true),
                   emitDelta(queries[row], which, 4)};
  Values sums = emitTiles(
      {k, v}, /*withStatistics=*/false, Values(features.getSums(), scalar(0)),
      [&](Value first, ValueRange before) -> Values {
        Values scores = multiply(q, k, first);
        Values gradients = multiply(dout, v, first);
        SmallVector<Column> columns = getColumns(first);
        for (auto [i, score] : llvm::enumerate(scores)) {
          int64_t row = getRowOf(i);
          const Column &column = columns[getColumnOf(i)];
          Value raw = mulF(score, scalar(parts.scale));
          Value gradient = emitGradient(join(queries[row], column.point), raw,
                                        gradients[i], ofRows[row])
                               .second;
          if (column.exists)
            gradient = select(column.exists, gradient, scalar(0));
          gradients[i] = gradient;
        }
        return accumulate(packWeights(gradients), k, first, features, before);
      });
  Value scale = scalar(parts.dqScale);
  storeGroup(kDq, queries, features, sums, {scale, scale});
}

void AttentionMatrixEmitter::emitDkDv() {
  enter(AttentionRows::DkDv);
  Group ofDk = getGroup(parts.shape.getHead(), tiles.headGroups);
  Group ofDv = getGroup(parts.shape.getValue(), tiles.valueGroups);
  loadRows({k, v});
  std::array<Point, 2> keys = getThreadRows();
  auto loadStatistic = [&](const Column &column, int64_t which) -> Value {
    Value at = add(column.number, index(which * tiles.columns));
    return memref::LoadOp::create(builder, loc, statistics,
                                  statisticsStage ? add(at, statisticsStage)
                                                  : at);
  };
  Values sums = emitTiles(
      {q, dout}, /*withStatistics=*/true,
      Values(ofDk.getSums() + ofDv.getSums(), scalar(0)),
      [&](Value first, ValueRange before) -> Values {
        Values scores = multiply(k, q, first);
        Values gradients = multiply(v, dout, first);
        SmallVector<Column> columns = getColumns(first);
        SmallVector<Statistics> ofColumns;
        for (const Column &column : columns)
          ofColumns.push_back({loadStatistic(column, 0),
                               loadStatistic(column, 1),
                               loadStatistic(column, 2)});
        for (auto [i, score] : llvm::enumerate(scores)) {
          const Column &column = columns[getColumnOf(i)];
          Value raw = mulF(score, scalar(parts.scale));
          auto [weight, gradient] =
              emitGradient(join(keys[getRowOf(i)], column.point), raw,
                           gradients[i], ofColumns[getColumnOf(i)]);
          if (column.exists) {
            weight = select(column.exists, weight, scalar(0));
            gradient = select(column.exists, gradient, scalar(0));
          }
          score = weight;
          gradients[i] = gradient;
        }
        Values after;
        if (ofDk.width != 0)
          after = accumulate(packWeights(gradients), q, first, ofDk,
                             before.take_front(ofDk.getSums()));
        if (ofDv.width != 0)
          llvm::append_range(after,
                             accumulate(packWeights(scores), dout, first, ofDv,
                                        before.take_back(ofDv.getSums())));
        return after;
      });
  Value one = scalar(1), scale = scalar(parts.dkScale);
  ArrayRef<Value> all = sums;
  if (ofDk.width != 0)
    storeGroup(kDk, keys, ofDk, all.take_front(ofDk.getSums()), {scale, scale});
  if (ofDv.width != 0)
    storeGroup(kDv, keys, ofDv, all.take_back(ofDv.getSums()), {one, one});
}
