//===- AttentionRowEmitter.cpp - Code of attention's rows -----------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Where a block is, memory, loops and values.
//
//===----------------------------------------------------------------------===//

#include "AttentionRowEmitter.h"
#include "BlockReduction.h"

#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace mlir::fsdp;

//===----------------------------------------------------------------------===//
// Where a block is
//===----------------------------------------------------------------------===//

/// Dimensions that gradients are summed over stay 0: getRowPoint sets them.
void AttentionRowEmitter::beginBlock(bool isOfKeys) {
  thread = gpu::ThreadIdOp::create(builder, loc, gpu::Dimension::x);
  Value rest = gpu::BlockIdOp::create(builder, loc, gpu::Dimension::x);
  auto take = [&](int64_t extent) -> Value {
    Value size = index(extent);
    Value taken = arith::RemUIOp::create(builder, loc, rest, size);
    rest = arith::DivUIOp::create(builder, loc, rest, size);
    return taken;
  };
  ArrayRef<int64_t> batch = parts.shape.getBatch().asArrayRef();
  if (isOfKeys)
    row.key = take(parts.shape.getKeys());
  else
    row.query = take(parts.shape.getQueries());
  row.batch.assign(batch.size(), Value());
  for (int dim = batch.size() - 1; dim >= 0; --dim)
    row.batch[dim] =
        isOfKeys && parts.isShared(dim) ? index(0) : take(batch[dim]);
}

/// Of a block's key: query number `number`, counting through the dimensions
/// that are summed over, queries fastest.
AttentionRowEmitter::Point AttentionRowEmitter::getRowPoint(Value number) {
  Point point = row;
  auto take = [&](int64_t extent) -> Value {
    Value size = index(extent);
    Value taken = arith::RemUIOp::create(builder, loc, number, size);
    number = arith::DivUIOp::create(builder, loc, number, size);
    return taken;
  };
  ArrayRef<int64_t> batch = parts.shape.getBatch().asArrayRef();
  point.query = take(parts.shape.getQueries());
  for (int dim = batch.size() - 1; dim >= 0; --dim)
    if (parts.isShared(dim))
      point.batch[dim] = take(batch[dim]);
  return point;
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

Value AttentionRowEmitter::getAddress(StridedAttr view, int64_t offset,
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

/// Rows of k, v and their gradients are keys, those of the others queries.
static bool isOfKeys(unsigned tensor) {
  return tensor == kK || tensor == kV || tensor == kDk || tensor == kDv;
}

Value AttentionRowEmitter::load(unsigned tensor, const Point &point,
                                Value column) {
  Value address =
      getAddress(parts.views[tensor], 0, point,
                 isOfKeys(tensor) ? point.key : point.query, column);
  Value value =
      memref::LoadOp::create(builder, loc, arguments[tensor], address);
  if (value.getType().isF32())
    return value;
  return arith::ExtFOp::create(builder, loc, builder.getF32Type(), value);
}

void AttentionRowEmitter::store(unsigned tensor, const Point &point,
                                Value column, Value value) {
  Value address =
      getAddress(parts.views[tensor], 0, point,
                 isOfKeys(tensor) ? point.key : point.query, column);
  Type type = parts.types[tensor].getElementType();
  if (!type.isF32())
    value = arith::TruncFOp::create(builder, loc, type, value);
  memref::StoreOp::create(builder, loc, value, arguments[tensor], address);
}

/// The maximum of a query's scores, or 1 / the sum of their exponentials.
Value AttentionRowEmitter::getStatsAddress(const Point &point, bool isInverse) {
  Value number = index(0);
  for (auto [at, extent] :
       llvm::zip(point.batch, parts.shape.getBatch().asArrayRef()))
    number = add(mul(number, extent), at);
  number = add(mul(number, parts.shape.getQueries()), point.query);
  if (!isInverse)
    return number;
  return add(number, index(parts.statsType.getNumElements() / 2));
}

Value AttentionRowEmitter::loadStats(const Point &point, bool isInverse) {
  return memref::LoadOp::create(builder, loc, arguments[parts.types.size()],
                                getStatsAddress(point, isInverse));
}

Value AttentionRowEmitter::loadShared(int64_t at, Value i) {
  return memref::LoadOp::create(builder, loc, shared, add(i, index(at)));
}

void AttentionRowEmitter::storeShared(int64_t at, Value i, Value value) {
  memref::StoreOp::create(builder, loc, value, shared, add(i, index(at)));
}

/// Features of the block's row of `tensor`; a barrier has to follow.
void AttentionRowEmitter::fillShared(int64_t at, unsigned tensor,
                                     int64_t size) {
  emitLoop(thread, index(size), kAttentionThreads, {},
           [&](Value feature, ValueRange) -> SmallVector<Value> {
             storeShared(at, feature, load(tensor, row, feature));
             return {};
           });
}

//===----------------------------------------------------------------------===//
// Loops
//===----------------------------------------------------------------------===//

SmallVector<Value> AttentionRowEmitter::emitLoop(
    Value begin, Value end, int64_t step, ValueRange init,
    llvm::function_ref<SmallVector<Value>(Value, ValueRange)> body) {
  auto loop = scf::ForOp::create(builder, loc, begin, end, index(step), init);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(loop.getBody());
  SmallVector<Value> carried =
      body(loop.getInductionVar(), loop.getRegionIterArgs());
  if (!init.empty())
    scf::YieldOp::create(builder, loc, carried);
  return llvm::to_vector_of<Value>(loop.getResults());
}

SmallVector<Value>
AttentionRowEmitter::emitIf(Value condition, ArrayRef<Value> otherwise,
                            llvm::function_ref<SmallVector<Value>()> body) {
  auto branch = scf::IfOp::create(builder, loc,
                                  ValueRange(otherwise).getTypes(), condition,
                                  /*withElseRegion=*/!otherwise.empty());
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(branch.thenBlock());
  SmallVector<Value> values = body();
  if (!otherwise.empty()) {
    scf::YieldOp::create(builder, loc, values);
    builder.setInsertionPointToStart(branch.elseBlock());
    scf::YieldOp::create(builder, loc, otherwise);
  }
  return llvm::to_vector_of<Value>(branch.getResults());
}

/// Calls `body` for each feature of the thread: its number there and in the
/// row.
void AttentionRowEmitter::emitThreadFeatures(
    int64_t size, llvm::function_ref<void(int64_t, Value)> body) {
  for (int64_t i = 0; i != countFeatures(size); ++i) {
    Value feature = add(thread, index(i * kAttentionThreads));
    emitIf(isBelow(feature, index(size)), {}, [&]() -> SmallVector<Value> {
      body(i, feature);
      return {};
    });
  }
}

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

Value AttentionRowEmitter::dotWithShared(unsigned tensor, const Point &point,
                                         int64_t at, int64_t size) {
  return emitLoop(index(0), index(size), 1, {scalar(0)},
                  [&](Value feature, ValueRange sum) -> SmallVector<Value> {
                    return {addF(sum[0], mulF(loadShared(at, feature),
                                              load(tensor, point, feature)))};
                  })[0];
}

Value AttentionRowEmitter::dot(unsigned a, unsigned b, const Point &point,
                               int64_t size) {
  return emitLoop(index(0), index(size), 1, {scalar(0)},
                  [&](Value feature, ValueRange sum) -> SmallVector<Value> {
                    return {addF(sum[0], mulF(load(a, point, feature),
                                              load(b, point, feature)))};
                  })[0];
}

/// Bools take a byte.
Value AttentionRowEmitter::loadCaptured(unsigned i, const Point &point,
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

Value AttentionRowEmitter::evaluate(Region &body, ArrayRef<Value> first,
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
Value AttentionRowEmitter::getReference(Value maximum) {
  return select(isEqual(maximum, minusInfinity()), scalar(0), maximum);
}

Value AttentionRowEmitter::reduce(Value value, vector::CombiningKind kind,
                                  int64_t which) {
  return reduceInBlock(builder, loc, value, kind, thread, kAttentionThreads,
                       slots, which * getSlotsPerReduction(kAttentionThreads));
}

std::pair<Value, Value> AttentionRowEmitter::emitGradient(const Point &point,
                                                          Value raw, Value dp,
                                                          Value delta) {
  Value score = evaluate(*parts.score, {raw}, point);
  Value exponential = expF(subF(score, loadStats(point, /*isInverse=*/false)));
  Value probability = mulF(exponential, loadStats(point, /*isInverse=*/true));
  Value behind = mulF(probability, subF(dp, delta));
  return {probability, evaluate(*parts.gradient, {behind, raw}, point)};
}
