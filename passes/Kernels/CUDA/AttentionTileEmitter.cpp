//===- AttentionTileEmitter.cpp - Code of attention's tiles ---------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Where a thread is, memory, tiles and values.
//
//===----------------------------------------------------------------------===//

#include "AttentionTileEmitter.h"
#include "BlockReduction.h"

#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace mlir::fsdp;

//===----------------------------------------------------------------------===//
// Where a thread is
//===----------------------------------------------------------------------===//

AttentionTileEmitter::AttentionTileEmitter(const AttentionParts &parts,
                                           OpBuilder &builder, Location loc,
                                           ValueRange arguments, Value shared)
    : parts(parts), builder(builder), loc(loc), arguments(arguments),
      shared(shared) {}

/// Rows of k, v and their gradients are keys, those of the others queries.
static bool hasKeys(unsigned tensor) {
  return tensor == kK || tensor == kV || tensor == kDk || tensor == kDv;
}

/// Floats of a tile, of so many rows of at most kTileFeatures.
static int64_t getTileSize(int64_t rows, int64_t features) {
  return rows * (std::min(features, kTileFeatures) + 1);
}

int64_t fsdp::getAttentionShared(const AttentionParts &parts) {
  int64_t head = parts.shape.getHead(), value = parts.shape.getValue();
  int64_t rows = kTileRows + kTileColumns;
  return getTileSize(rows, head) + getTileSize(rows, value) +
         2 * kTileRows * (kTileColumns + 1) + kTileColumns;
}

void AttentionTileEmitter::beginBlock(AttentionRows rows) {
  isOfKeys = rows == AttentionRows::DkDv;
  int64_t head = parts.shape.getHead(), value = parts.shape.getValue();
  int64_t end = 0;
  auto take = [&](int64_t size) {
    int64_t begin = end;
    end += size;
    return begin;
  };
  auto place = [&](unsigned tensor, int64_t features) -> Part {
    bool isRows = hasKeys(tensor) == isOfKeys;
    return {tensor,
            take(getTileSize(isRows ? kTileRows : kTileColumns, features)),
            features};
  };
  q = place(kQ, head);
  k = place(kK, head);
  v = place(kV, value);
  dout = place(kDout, value);
  atWeights = take(kTileRows * (kTileColumns + 1));
  atGradients = take(kTileRows * (kTileColumns + 1));
  atDeltas = take(kTileColumns);

  thread = gpu::ThreadIdOp::create(builder, loc, gpu::Dimension::x);
  row = arith::DivUIOp::create(builder, loc, thread, index(kRowThreads));
  lane = arith::RemUIOp::create(builder, loc, thread, index(kRowThreads));
  rowCount = isOfKeys ? parts.shape.getKeys() : parts.shape.getQueries();
  columnCount = isOfKeys ? parts.shape.getQueries() : parts.shape.getKeys();
  Value rest = gpu::BlockIdOp::create(builder, loc, gpu::Dimension::x);
  firstRow = mul(split(rest, llvm::divideCeil(rowCount, kTileRows)), kTileRows);
  ArrayRef<int64_t> extents = parts.shape.getBatch().asArrayRef();
  batch.assign(extents.size(), Value());
  for (int dim = extents.size() - 1; dim >= 0; --dim) {
    bool isSummed = isOfKeys && parts.isShared(dim);
    batch[dim] = isSummed ? index(0) : split(rest, extents[dim]);
    if (isSummed)
      columnCount *= extents[dim];
  }
}

Value AttentionTileEmitter::split(Value &number, int64_t extent) {
  Value size = index(extent);
  Value remainder = arith::RemUIOp::create(builder, loc, number, size);
  number = arith::DivUIOp::create(builder, loc, number, size);
  return remainder;
}

AttentionTileEmitter::Point AttentionTileEmitter::getRow(Value number) {
  number = least(number, index(rowCount - 1));
  return isOfKeys ? Point{batch, Value(), number}
                  : Point{batch, number, Value()};
}

/// Queries of keys that several batches share count through these dimensions,
/// queries fastest.
AttentionTileEmitter::Point AttentionTileEmitter::getColumn(Value number) {
  number = least(number, index(columnCount - 1));
  if (!isOfKeys)
    return {batch, Value(), number};
  Point point{batch, Value(), Value()};
  ArrayRef<int64_t> extents = parts.shape.getBatch().asArrayRef();
  point.query = split(number, parts.shape.getQueries());
  for (int dim = extents.size() - 1; dim >= 0; --dim)
    if (parts.isShared(dim))
      point.batch[dim] = split(number, extents[dim]);
  return point;
}

AttentionTileEmitter::Point AttentionTileEmitter::join(const Point &row,
                                                       const Point &column) {
  return {column.batch, isOfKeys ? column.query : row.query,
          isOfKeys ? row.key : column.key};
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

Value AttentionTileEmitter::getAddress(StridedAttr view, int64_t offset,
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

Value AttentionTileEmitter::load(unsigned tensor, const Point &point,
                                 Value column) {
  Value address = getAddress(parts.views[tensor], 0, point,
                             hasKeys(tensor) ? point.key : point.query, column);
  Value value =
      memref::LoadOp::create(builder, loc, arguments[tensor], address);
  if (value.getType().isF32())
    return value;
  return arith::ExtFOp::create(builder, loc, builder.getF32Type(), value);
}

void AttentionTileEmitter::store(unsigned tensor, const Point &point,
                                 Value column, Value value) {
  Value address = getAddress(parts.views[tensor], 0, point,
                             hasKeys(tensor) ? point.key : point.query, column);
  Type type = parts.types[tensor].getElementType();
  if (!type.isF32())
    value = arith::TruncFOp::create(builder, loc, type, value);
  memref::StoreOp::create(builder, loc, value, arguments[tensor], address);
}

/// The maximum of a query's scores, or 1 / the sum of their exponentials.
Value AttentionTileEmitter::getStatsAddress(const Point &point,
                                            bool isInverse) {
  Value number = index(0);
  for (auto [at, extent] :
       llvm::zip(point.batch, parts.shape.getBatch().asArrayRef()))
    number = add(mul(number, extent), at);
  number = add(mul(number, parts.shape.getQueries()), point.query);
  if (!isInverse)
    return number;
  return add(number, index(parts.statsType.getNumElements() / 2));
}

Value AttentionTileEmitter::loadStats(const Point &point, bool isInverse) {
  return memref::LoadOp::create(builder, loc, arguments[parts.types.size()],
                                getStatsAddress(point, isInverse));
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
// Loops
//===----------------------------------------------------------------------===//

SmallVector<Value> AttentionTileEmitter::emitLoop(
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

void AttentionTileEmitter::emitIf(Value condition,
                                  llvm::function_ref<void()> body) {
  auto branch =
      scf::IfOp::create(builder, loc, condition, /*withElseRegion=*/false);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(branch.thenBlock());
  body();
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
  emitLoop(thread, index(count * width), kAttentionThreads, {},
           [&](Value element, ValueRange) -> Values {
             Value i =
                 arith::DivUIOp::create(builder, loc, element, index(width));
             Value feature =
                 arith::RemUIOp::create(builder, loc, element, index(width));
             Point point = isOfRows ? getRow(add(firstRow, i))
                                    : getColumn(add(firstColumn, i));
             Value value =
                 load(part.tensor, point, add(feature, index(firstFeature)));
             storeShared(part.at, at(i, width, feature), value);
             return {};
           });
}

Value AttentionTileEmitter::getThreadColumn(int64_t score) {
  return add(lane, index(score * kRowThreads));
}

Value AttentionTileEmitter::isColumn(Value firstColumn, int64_t score) {
  return isBelow(add(firstColumn, getThreadColumn(score)), index(columnCount));
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
  Value left =
      arith::SubIOp::create(builder, loc, index(columnCount), firstColumn);
  Value end = least(left, index(kTileColumns));
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

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

/// Bools take a byte.
Value AttentionTileEmitter::loadCaptured(unsigned i, const Point &point,
                                         Type type) {
  auto view = cast<StridedAttr>(parts.capturedViews[i]);
  Value address =
      getAddress(view, view.getOffset(), point, point.query, point.key);
  Value value = memref::LoadOp::create(
      builder, loc, arguments[parts.types.size() + 1 + i], address);
  if (!type.isInteger(1))
    return value;
  Value zero = arith::ConstantOp::create(builder, loc,
                                         builder.getZeroAttr(value.getType()));
  return arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ne, value,
                               zero);
}

Value AttentionTileEmitter::evaluate(Region &body, ArrayRef<Value> first,
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

/// What is taken from the scores of rows whose maximum so far is `maximum`: of
/// rows without a key 0, since -inf + inf is no number.
Value AttentionTileEmitter::getReference(Value maximum) {
  return select(isEqual(maximum, minusInfinity()), scalar(0), maximum);
}

Value AttentionTileEmitter::reduce(Value value, vector::CombiningKind kind,
                                   int64_t threads) {
  return reduceInWarp(builder, loc, value, kind, threads);
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

std::pair<Value, Value> AttentionTileEmitter::emitGradient(const Point &point,
                                                           Value raw, Value dp,
                                                           Value delta) {
  Value score = evaluate(*parts.score, {raw}, point);
  Value exponential = expF(subF(score, loadStats(point, /*isInverse=*/false)));
  Value probability = mulF(exponential, loadStats(point, /*isInverse=*/true));
  Value scoreGradient = mulF(probability, subF(dp, delta));
  return {probability, evaluate(*parts.gradient, {scoreGradient, raw}, point)};
}
