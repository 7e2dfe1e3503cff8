//===- AttentionBlockEmitter.cpp - Points and values of attention ---------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "AttentionBlockEmitter.h"
#include "BlockReduction.h"

#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace mlir::fsdp;

//===----------------------------------------------------------------------===//
// Where a block is
//===----------------------------------------------------------------------===//

/// Rows of k, v and their gradients are keys, those of the others queries.
static bool hasKeys(unsigned tensor) {
  return tensor == kK || tensor == kV || tensor == kDk || tensor == kDv;
}

bool AttentionBlockEmitter::isOfRows(unsigned tensor) const {
  return hasKeys(tensor) == isOfKeys;
}

/// Tiles of columns that all blocks of keys visit, of each product, if they
/// skip those whose queries lie before all keys of the block.
static int64_t countUnmaskedTiles(int64_t keys, int64_t queries,
                                  int64_t tileRows, int64_t tileColumns) {
  int64_t tiles = llvm::divideCeil(queries, tileColumns), count = 0;
  for (int64_t key = 0; key < keys; key += tileRows)
    count += std::max<int64_t>(0, tiles - key / tileColumns);
  return count;
}

Value AttentionBlockEmitter::enterBlock(AttentionRows rows, int64_t rowsOfTile,
                                        int64_t columnsOfTile) {
  isOfKeys = rows == AttentionRows::DkDv;
  tileRows = rowsOfTile;
  tileColumns = columnsOfTile;
  thread = gpu::ThreadIdOp::create(builder, loc, gpu::Dimension::x);
  rowCount = isOfKeys ? parts.shape.getKeys() : parts.shape.getQueries();
  columnCount = isOfKeys ? parts.shape.getQueries() : parts.shape.getKeys();
  Value rest = gpu::BlockIdOp::create(builder, loc, gpu::Dimension::x);
  firstRow = mul(split(rest, llvm::divideCeil(rowCount, tileRows)), tileRows);
  ArrayRef<int64_t> extents = parts.shape.getBatch().asArrayRef();
  batch.assign(extents.size(), Value());
  int64_t products = 1;
  for (int dim = extents.size() - 1; dim >= 0; --dim) {
    bool isSummed = isOfKeys && parts.isShared(dim);
    batch[dim] = isSummed ? index(0) : split(rest, extents[dim]);
    if (isSummed)
      products *= extents[dim];
  }
  // Tiles can be skipped if each has queries of one product alone, the last one
  // of which may then be short.
  int64_t all = llvm::divideCeil(rowCount, tileRows) *
                llvm::divideCeil(products * columnCount, tileColumns),
          unmasked = products * countUnmaskedTiles(rowCount, columnCount,
                                                   tileRows, tileColumns);
  skipsTiles = isOfKeys && parts.isCausal && unmasked < all;
  isOfOneProduct = skipsTiles || products == 1;
  columnsOfStretch = isOfOneProduct ? columnCount : products * columnCount;
  stretch = llvm::alignTo(columnsOfStretch, tileColumns);
  columnCount = isOfOneProduct ? products * stretch : stretch;
  loadInvariants();
  return rest;
}

Value AttentionBlockEmitter::split(Value &number, int64_t extent) {
  Value size = index(extent);
  Value remainder = arith::RemUIOp::create(builder, loc, number, size);
  number = arith::DivUIOp::create(builder, loc, number, size);
  return remainder;
}

AttentionBlockEmitter::Point AttentionBlockEmitter::getRow(Value number) {
  number = least(number, index(rowCount - 1));
  return isOfKeys ? Point{batch, Value(), number}
                  : Point{batch, number, Value()};
}

/// Where a column is in its stretch.
Value AttentionBlockEmitter::getPlace(Value first, Value offset) {
  if (stretch != columnCount)
    first = arith::RemUIOp::create(builder, loc, first, index(stretch));
  return add(first, offset);
}

/// Queries of keys that several batches share count through these dimensions,
/// queries fastest.
AttentionBlockEmitter::Point AttentionBlockEmitter::getColumn(Value first,
                                                              Value offset) {
  Value number = getPlace(first, offset);
  if (columnsOfStretch != stretch)
    number = least(number, index(columnsOfStretch - 1));
  if (!isOfKeys)
    return {batch, Value(), number};
  Point point{batch, Value(), Value()};
  if (!isOfOneProduct) {
    point.query = split(number, parts.shape.getQueries());
  } else {
    point.query = number;
    number = stretch == columnCount
                 ? index(0)
                 : arith::DivUIOp::create(builder, loc, first, index(stretch));
  }
  ArrayRef<int64_t> extents = parts.shape.getBatch().asArrayRef();
  for (int dim = extents.size() - 1; dim >= 0; --dim)
    if (parts.isShared(dim))
      point.batch[dim] = split(number, extents[dim]);
  return point;
}

AttentionBlockEmitter::Point AttentionBlockEmitter::join(const Point &row,
                                                         const Point &column) {
  return {column.batch, isOfKeys ? column.query : row.query,
          isOfKeys ? row.key : column.key};
}

Value AttentionBlockEmitter::isColumn(Value first, Value offset) {
  if (columnsOfStretch == stretch)
    return Value();
  return isBelow(getPlace(first, offset), index(columnsOfStretch));
}

Value AttentionBlockEmitter::isWhole(Value first) {
  Value place = getPlace(first, index(0)), whole;
  auto expect = [&](Value condition) {
    whole = whole ? Value(arith::AndIOp::create(builder, loc, whole, condition))
                  : condition;
  };
  if (columnsOfStretch != stretch)
    expect(
        isBelow(add(place, index(tileColumns - 1)), index(columnsOfStretch)));
  // The last key and the first query.
  if (parts.isCausal && isOfKeys)
    expect(isBelow(add(firstRow, index(tileRows - 2)), place));
  else if (parts.isCausal)
    expect(isBelow(add(place, index(tileColumns - 2)), firstRow));
  return whole;
}

/// Queries see no keys after themselves.
Value AttentionBlockEmitter::getColumnEnd() {
  Value end = index(columnsOfStretch);
  if (isOfKeys || !parts.isCausal)
    return end;
  return least(end, add(firstRow, index(tileRows)));
}

Value AttentionBlockEmitter::getColumnBegin() {
  if (!skipsTiles)
    return index(0);
  Value tile =
      arith::DivUIOp::create(builder, loc, firstRow, index(tileColumns));
  return mul(tile, tileColumns);
}

AttentionBlockEmitter::Tile AttentionBlockEmitter::getFirstTile() {
  Value begin = getColumnBegin();
  return {mul(begin, columnCount / stretch), begin};
}

Value AttentionBlockEmitter::getTileEnd() {
  return stretch == columnCount ? getColumnEnd() : index(columnCount);
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

Value AttentionBlockEmitter::getAddress(StridedAttr view, int64_t offset,
                                        const Point &point, Value row,
                                        Value column) {
  Value address = index(offset);
  for (auto [at, stride] : llvm::zip(point.batch, view.getBatchStrides()))
    if (stride != 0)
      address = add(address, mul(at, stride));
  if (view.getRowStride() != 0)
    address = add(address, mul(row, view.getRowStride()));
  if (view.getColumnStride() != 0)
    address = add(address, mul(column, view.getColumnStride()));
  return address;
}

Value AttentionBlockEmitter::getElement(unsigned tensor, const Point &point,
                                        Value column) {
  return getAddress(parts.views[tensor], 0, point,
                    hasKeys(tensor) ? point.key : point.query, column);
}

Value AttentionBlockEmitter::load(unsigned tensor, const Point &point,
                                  Value column) {
  Value address = getElement(tensor, point, column);
  Value value =
      memref::LoadOp::create(builder, loc, arguments[tensor], address);
  if (value.getType().isF32())
    return value;
  return arith::ExtFOp::create(builder, loc, builder.getF32Type(), value);
}

void AttentionBlockEmitter::store(unsigned tensor, const Point &point,
                                  Value column, Value value) {
  Value address = getElement(tensor, point, column);
  Type type = parts.types[tensor].getElementType();
  if (!type.isF32())
    value = arith::TruncFOp::create(builder, loc, type, value);
  memref::StoreOp::create(builder, loc, value, arguments[tensor], address);
}

Value AttentionBlockEmitter::getRowNumber(const Point &point) {
  Value number = index(0);
  for (auto [at, extent] :
       llvm::zip(point.batch, parts.shape.getBatch().asArrayRef()))
    number = add(mul(number, extent), at);
  return add(mul(number, parts.shape.getQueries()), point.query);
}

/// The maximum of a query's scores, or 1 / the sum of their exponentials.
Value AttentionBlockEmitter::getStatsAddress(const Point &point,
                                             bool isInverse) {
  Value number = getRowNumber(point);
  return isInverse ? add(number, index(parts.getRowCount())) : number;
}

Value AttentionBlockEmitter::getRowValueAddress(const Point &point,
                                                AttentionRowValue which) {
  Value number = getRowNumber(point);
  return which == 0 ? number : add(number, index(which * parts.getRowCount()));
}

Value AttentionBlockEmitter::loadStats(const Point &point, bool isInverse) {
  return memref::LoadOp::create(builder, loc, arguments[parts.types.size()],
                                getStatsAddress(point, isInverse));
}

//===----------------------------------------------------------------------===//
// Loops
//===----------------------------------------------------------------------===//

SmallVector<Value> AttentionBlockEmitter::emitLoop(
    Value begin, Value end, int64_t step, ValueRange init,
    llvm::function_ref<Values(Value, ValueRange)> body) {
  auto loop = scf::ForOp::create(builder, loc, begin, end, index(step), init);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(loop.getBody());
  Values carried = body(loop.getInductionVar(), loop.getRegionIterArgs());
  if (!init.empty())
    scf::YieldOp::create(builder, loc, carried);
  return llvm::to_vector_of<Value>(loop.getResults());
}

/// The first column of a tile is carried from one to the next, since it is not
/// the loop's number where tiles of a stretch were skipped.
SmallVector<Value> AttentionBlockEmitter::emitTileLoop(
    const Tile &first, Value end, ValueRange init,
    llvm::function_ref<Values(const Tile &, const Tile &, ValueRange)> body) {
  auto getNext = [&](Value number) { return add(number, index(tileColumns)); };
  if (stretch == columnCount)
    return emitLoop(first.at, end, tileColumns, init,
                    [&](Value at, ValueRange before) {
                      Value next = getNext(at);
                      return body({at, at}, {next, next}, before);
                    });
  Values carried(init);
  carried.push_back(first.first);
  Values results = emitLoop(
      first.at, end, tileColumns, carried,
      [&](Value at, ValueRange before) -> Values {
        Tile tile{at, before.back()}, next{getNext(at), getNext(tile.first)};
        Value column =
            arith::RemUIOp::create(builder, loc, next.first, index(stretch));
        Value isOfNextStretch = arith::CmpIOp::create(
            builder, loc, arith::CmpIPredicate::eq, column, index(0));
        next.first =
            select(isOfNextStretch, add(next.first, first.first), next.first);
        Values after = body(tile, next, before.drop_back());
        after.push_back(next.first);
        return after;
      });
  results.truncate(init.size());
  return results;
}

void AttentionBlockEmitter::emitIf(Value condition,
                                   llvm::function_ref<void()> body) {
  auto branch =
      scf::IfOp::create(builder, loc, condition, /*withElseRegion=*/false);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(branch.thenBlock());
  body();
}

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

void AttentionBlockEmitter::loadInvariants() {
  invariants.assign(parts.captured.size(), Value());
  for (auto [i, attr] : llvm::enumerate(parts.capturedViews)) {
    auto view = cast<StridedAttr>(attr);
    if (llvm::all_of(view.getStrides().asArrayRef(),
                     [](int64_t stride) { return stride == 0; }))
      invariants[i] = memref::LoadOp::create(
          builder, loc, arguments[parts.types.size() + 1 + i],
          index(view.getOffset()));
  }
}

/// Bools take a byte.
Value AttentionBlockEmitter::loadCaptured(unsigned i, const Point &point,
                                          Type type) {
  auto view = cast<StridedAttr>(parts.capturedViews[i]);
  Value value = invariants[i];
  if (!value)
    value = memref::LoadOp::create(
        builder, loc, arguments[parts.types.size() + 1 + i],
        getAddress(view, view.getOffset(), point, point.query, point.key));
  if (!type.isInteger(1))
    return value;
  Value zero = arith::ConstantOp::create(builder, loc,
                                         builder.getZeroAttr(value.getType()));
  return arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ne, value,
                               zero);
}

Value AttentionBlockEmitter::evaluate(Region &body, ArrayRef<Value> first,
                                      const Point &point) {
  Block &block = body.front();
  IRMapping values;
  unsigned next = 0;
  auto bind = [&](Value value) {
    values.map(block.getArgument(next++), value);
  };
  llvm::for_each(first, bind);
  llvm::for_each(point.batch, bind);
  bind(point.query);
  bind(point.key);
  for (unsigned i = 0, e = parts.captured.size(); i != e; ++i) {
    BlockArgument arg = block.getArgument(next);
    if (arg.use_empty())
      ++next;
    else
      bind(loadCaptured(i, point, arg.getType()));
  }
  for (Operation &op : block.without_terminator())
    builder.clone(op, values);
  return values.lookupOrDefault(block.getTerminator()->getOperand(0));
}

Value AttentionBlockEmitter::getFactorAt(const Point &point) {
  return parts.hasFactor() ? evaluate(*parts.factor, {}, point) : Value();
}

/// What is taken from the scores of rows whose maximum so far is `maximum`: of
/// rows without a key 0, since -inf + inf is no number.
Value AttentionBlockEmitter::getReference(Value maximum) {
  return select(isEqual(maximum, minusInfinity()), scalar(0), maximum);
}

Value AttentionBlockEmitter::reduce(Value value, vector::CombiningKind kind,
                                    int64_t threads) {
  return reduceInWarp(builder, loc, value, kind, threads);
}

/// A score that is no number makes the sum one, not the maximum.
std::pair<Value, Value> AttentionBlockEmitter::getInverse(Value maximum,
                                                          Value sum) {
  Value isMasked = arith::AndIOp::create(
      builder, loc, isEqual(maximum, minusInfinity()), isEqual(sum, scalar(0)));
  float masked =
      parts.isZeroMasked ? 0 : std::numeric_limits<float>::quiet_NaN();
  Value inverse = arith::DivFOp::create(builder, loc, scalar(1), sum);
  return {select(isMasked, scalar(masked), inverse), isMasked};
}

void AttentionBlockEmitter::storeStats(const Point &query, Value maximum,
                                       Value inverse, Value isMasked) {
  Value stats = arguments[parts.types.size()];
  memref::StoreOp::create(builder, loc, select(isMasked, scalar(0), maximum),
                          stats, getStatsAddress(query, /*isInverse=*/false));
  memref::StoreOp::create(builder, loc, inverse, stats,
                          getStatsAddress(query, /*isInverse=*/true));
}

std::pair<Value, Value>
AttentionBlockEmitter::emitGradient(const Point &point, Value raw, Value dp,
                                    const Statistics &statistics) {
  Value score = evaluate(*parts.score, {raw}, point);
  Value exponential = expF(subF(score, statistics.maximum));
  Value probability = mulF(exponential, statistics.inverse);
  Value factor = getFactorAt(point);
  Value scoreGradient =
      mulF(probability, subF(mulFactor(dp, factor), statistics.delta));
  return {mulFactor(probability, factor),
          evaluate(*parts.gradient, {scoreGradient, raw}, point)};
}
