//===- AttentionTiles.cpp - Attention, a block per tile of rows -----------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "AttentionTileEmitter.h"

#include "mlir/Dialect/Bufferization/IR/Bufferization.h"

using namespace mlir;
using namespace mlir::fsdp;

//===----------------------------------------------------------------------===//
// Parts
//===----------------------------------------------------------------------===//

/// Whether a kernel hands out a value that it computes.
static bool isStored(Value value) {
  return llvm::any_of(value.getUsers(),
                      llvm::IsaPred<bufferization::MaterializeInDestinationOp>);
}

AttentionParts::AttentionParts(Operation *op) : captured(op->getOperands()) {
  auto add = [&](Value tensor, StridedAttr view) {
    bool isWanted = tensor && (!isa<OpResult>(tensor) || isStored(tensor));
    types.push_back(isWanted ? cast<RankedTensorType>(tensor.getType())
                             : RankedTensorType());
    views.push_back(view);
  };
  auto addCommon = [&](auto attention) {
    shape = attention.getShape();
    add(attention.getQ(), attention.getQView());
    add(attention.getK(), attention.getKView());
    add(attention.getV(), attention.getVView());
    add(attention.getOut(), attention.getOutView());
    statsType = cast<RankedTensorType>(attention.getStats().getType());
    captured = attention.getCaptured();
    capturedViews = attention.getCapturedViews();
    score = &attention.getScore();
    scale = attention.getScale().convertToDouble();
    isCausal = attention.getCausal();
  };
  if (auto forward = dyn_cast<AttentionOp>(op)) {
    addCommon(forward);
    hasStats = isStored(forward.getStats());
    isZeroMasked = forward.getZeroMasked();
    return;
  }
  auto backward = cast<AttentionBackwardOp>(op);
  addCommon(backward);
  add(backward.getDout(), backward.getDoutView());
  add(backward.getDq(), backward.getDqViewAttr());
  add(backward.getDk(), backward.getDkViewAttr());
  add(backward.getDv(), backward.getDvViewAttr());
  gradient = &backward.getGradient();
  dqScale = backward.getDqScale().convertToDouble();
  dkScale = backward.getDkScale().convertToDouble();
}

bool AttentionParts::isShared(unsigned dim) const {
  return llvm::any_of(ArrayRef<unsigned>{kDk, kDv}, [&](unsigned tensor) {
    return exists(tensor) && views[tensor].getBatchStrides()[dim] == 0;
  });
}

int64_t fsdp::getAttentionGrid(const AttentionParts &parts,
                               AttentionRows rows) {
  bool isOfKeys = rows == AttentionRows::DkDv;
  int64_t blocks = llvm::divideCeil(
      isOfKeys ? parts.shape.getKeys() : parts.shape.getQueries(), kTileRows);
  for (auto [dim, extent] :
       llvm::enumerate(parts.shape.getBatch().asArrayRef()))
    if (!isOfKeys || !parts.isShared(dim))
      blocks *= extent;
  return blocks;
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
  Value end = index(columnCount);
  if (parts.isCausal)
    end = least(end, add(firstRow, index(kTileRows)));
  // The maximum, the sum and each feature so far.
  Values init(2 + countFeatures(width), scalar(0));
  init[0] = minusInfinity();
  Values sums = emitLoop(
      index(0), end, kTileColumns, init,
      [&](Value first, ValueRange before) -> Values {
        Values scores = multiply(q, k, first);
        Value highest = minusInfinity();
        for (auto [i, score] : llvm::enumerate(scores)) {
          Point point = join(query, getColumn(add(first, getThreadColumn(i))));
          Value scaled = mulF(score, scalar(parts.scale));
          score =
              select(isColumn(first, i),
                     evaluate(*parts.score, {scaled}, point), minusInfinity());
          // What is no number never wins; it shows in the sum.
          highest = arith::MaxNumFOp::create(builder, loc, highest, score);
        }
        highest = reduce(highest, vector::CombiningKind::MAXNUMF);
        Value maximum =
            arith::MaxNumFOp::create(builder, loc, before[0], highest);
        Value reference = getReference(maximum);
        Value correction = expF(subF(before[0], reference));
        Value sum = scalar(0);
        for (auto [i, score] : llvm::enumerate(scores)) {
          Value weight = select(isColumn(first, i),
                                expF(subF(score, reference)), scalar(0));
          storeShared(atWeights, at(row, kTileColumns, getThreadColumn(i)),
                      weight);
          sum = addF(sum, weight);
        }
        sum = reduce(sum, vector::CombiningKind::ADD);
        Values after = {maximum, addF(mulF(before[1], correction), sum)};
        Values features;
        for (Value feature : before.drop_front(2))
          features.push_back(mulF(feature, correction));
        llvm::append_range(after, accumulate(atWeights, v, first,
                                             /*isLoaded=*/false, features));
        return after;
      });
  Value maximum = sums[0], sum = sums[1];
  // A score that is no number makes the sum one, not the maximum.
  Value isMasked = arith::AndIOp::create(
      builder, loc, isEqual(maximum, minusInfinity()), isEqual(sum, scalar(0)));
  float masked =
      parts.isZeroMasked ? 0 : std::numeric_limits<float>::quiet_NaN();
  Value inverse = arith::DivFOp::create(builder, loc, scalar(1), sum);
  inverse = select(isMasked, scalar(masked), inverse);
  emitFeatures(width, [&](int64_t i, Value feature) {
    store(kOut, query, feature, mulF(sums[2 + i], inverse));
  });
  if (!parts.hasStats)
    return;
  Value stats = arguments[parts.types.size()];
  Value isFirst = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq,
                                        lane, index(0));
  isFirst = arith::AndIOp::create(builder, loc, isFirst,
                                  isBelow(add(firstRow, row), index(rowCount)));
  emitIf(isFirst, [&] {
    memref::StoreOp::create(builder, loc, select(isMasked, scalar(0), maximum),
                            stats, getStatsAddress(query, /*isInverse=*/false));
    memref::StoreOp::create(builder, loc, inverse, stats,
                            getStatsAddress(query, /*isInverse=*/true));
  });
}

void AttentionTileEmitter::emitDq() {
  beginBlock(AttentionRows::Dq);
  int64_t head = parts.shape.getHead();
  if (isWhole(q))
    loadTile(q, /*isOfRows=*/true, Value(), 0);
  if (isWhole(dout))
    loadTile(dout, /*isOfRows=*/true, Value(), 0);
  Point query = getRow(add(firstRow, row));
  Value delta = emitDelta(query, lane, kRowThreads);
  Value end = index(columnCount);
  if (parts.isCausal)
    end = least(end, add(firstRow, index(kTileRows)));
  Values init(countFeatures(head), scalar(0));
  Values sums = emitLoop(
      index(0), end, kTileColumns, init,
      [&](Value first, ValueRange before) -> Values {
        Values scores = multiply(q, k, first);
        Values gradients = multiply(dout, v, first);
        for (auto [i, score] : llvm::enumerate(scores)) {
          Point point = join(query, getColumn(add(first, getThreadColumn(i))));
          Value raw = mulF(score, scalar(parts.scale));
          Value gradient = emitGradient(point, raw, gradients[i], delta).second;
          storeShared(atGradients, at(row, kTileColumns, getThreadColumn(i)),
                      select(isColumn(first, i), gradient, scalar(0)));
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
  constexpr int64_t kColumnThreads = kAttentionThreads / kTileColumns;
  Value column =
      arith::DivUIOp::create(builder, loc, thread, index(kColumnThreads));
  Value part =
      arith::RemUIOp::create(builder, loc, thread, index(kColumnThreads));
  Value isFirst = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq,
                                        part, index(0));
  // Queries in front of the keys see none of them.
  Value begin = index(0);
  if (parts.isCausal && columnCount == parts.shape.getQueries())
    begin =
        mul(arith::DivUIOp::create(builder, loc, firstRow, index(kTileColumns)),
            kTileColumns);
  Values init(headCount + widthCount, scalar(0));
  Values sums = emitLoop(
      begin, index(columnCount), kTileColumns, init,
      [&](Value first, ValueRange before) -> Values {
        Value delta =
            emitDelta(getColumn(add(first, column)), part, kColumnThreads);
        emitIf(isFirst, [&] { storeShared(atDeltas, column, delta); });
        Values scores = multiply(k, q, first);
        Values gradients = multiply(v, dout, first);
        for (auto [i, score] : llvm::enumerate(scores)) {
          Value at = getThreadColumn(i);
          Point point = join(key, getColumn(add(first, at)));
          Value raw = mulF(score, scalar(parts.scale));
          auto [weight, gradient] =
              emitGradient(point, raw, gradients[i], loadShared(atDeltas, at));
          Value exists = isColumn(first, i);
          Value place = this->at(row, kTileColumns, at);
          storeShared(atWeights, place, select(exists, weight, scalar(0)));
          storeShared(atGradients, place, select(exists, gradient, scalar(0)));
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

void fsdp::emitAttentionTiles(const AttentionParts &parts, AttentionRows rows,
                              OpBuilder &builder, Location loc,
                              ValueRange arguments, Value shared) {
  AttentionTileEmitter emitter(parts, builder, loc, arguments, shared);
  switch (rows) {
  case AttentionRows::Out:
    return emitter.emitOut();
  case AttentionRows::Dq:
    return emitter.emitDq();
  case AttentionRows::DkDv:
    return emitter.emitDkDv();
  }
}
