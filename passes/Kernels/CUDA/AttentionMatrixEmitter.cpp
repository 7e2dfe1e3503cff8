//===- AttentionMatrixEmitter.cpp - Attention by tensor cores -------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "AttentionMatrixEmitter.h"

using namespace mlir;
using namespace mlir::fsdp;

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
  if (isOfKeys)
    statisticsPointer = createPointer(builder, loc, statistics);
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
        Values scores = getScores(multiply(q, k, first), first, queries);
        Rows highest{minusInfinity(), minusInfinity()};
        for (auto [i, score] : llvm::enumerate(scores)) {
          // What is no number never wins; it shows in the sum.
          Value &most = highest[getRowOf(i)];
          most = arith::MaxNumFOp::create(builder, loc, most, score);
        }
        Rows maximum, reference, shift, correction, sum;
        for (int64_t row = 0; row != 2; ++row) {
          Value most = reduce(highest[row], vector::CombiningKind::MAXNUMF, 4);
          maximum[row] =
              arith::MaxNumFOp::create(builder, loc, before[row], most);
          reference[row] = getReference(maximum[row]);
          shift[row] = getShift(reference[row]);
          // Of the same maximum exactly 1.
          correction[row] =
              getCorrection(before[row], reference[row], shift[row]);
          sum[row] = mulF(before[2 + row], correction[row]);
        }
        for (auto [i, score] : llvm::enumerate(scores)) {
          int64_t row = getRowOf(i);
          score = exponentiate(score, reference[row], shift[row]);
          sum[row] = addF(sum[row], score);
        }
        multiplyAll(scores, getFactors(first, queries));
        Values corrected;
        for (auto [i, feature] : llvm::enumerate(before.drop_front(4)))
          corrected.push_back(mulF(feature, correction[getRowOf(i)]));
        Values after = {maximum[0], maximum[1], sum[0], sum[1]};
        llvm::append_range(after, accumulate(packWeights(scores), v, first,
                                             features, corrected));
        return after;
      });
  Rows inverse, isMasked;
  for (int64_t row = 0; row != 2; ++row) {
    std::tie(inverse[row], isMasked[row]) = getInverse(
        sums[row], reduce(sums[2 + row], vector::CombiningKind::ADD, 4));
    if (isFolded())
      sums[row] = mulF(sums[row], scalar(parts.scale));
  }
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
  std::array<Statistics, 2> ofRows = {loadRowStatistics(queries[0]),
                                      loadRowStatistics(queries[1])};
  if (parts.getRowValues() != 0)
    storeRowValues(queries, ofRows);
  Values sums = emitTiles(
      {k, v}, /*withStatistics=*/false, Values(features.getSums(), scalar(0)),
      [&](Value first, ValueRange before) -> Values {
        Values weights = multiply(q, k, first);
        Values gradients = multiply(dout, v, first);
        differentiate(weights, gradients, first, queries,
                      [&](int64_t i) { return ofRows[getRowOf(i)]; });
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
  Values sums = emitTiles(
      {q, dout}, /*withStatistics=*/true,
      Values(ofDk.getSums() + ofDv.getSums(), scalar(0)),
      [&](Value first, ValueRange before) -> Values {
        Values weights = multiply(k, q, first);
        Values gradients = multiply(v, dout, first);
        SmallVector<Statistics> ofColumns = loadColumnStatistics();
        differentiate(weights, gradients, first, keys,
                      [&](int64_t i) { return ofColumns[getColumnOf(i)]; });
        Values after;
        if (ofDk.width != 0)
          after = accumulate(packWeights(gradients), q, first, ofDk,
                             before.take_front(ofDk.getSums()));
        if (ofDv.width != 0)
          llvm::append_range(after,
                             accumulate(packWeights(weights), dout, first, ofDv,
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
