//===- AttentionRows.cpp - Attention, a block per row ---------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "AttentionRowEmitter.h"
#include "BlockReduction.h"

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
  if (auto forward = dyn_cast<AttentionOp>(op)) {
    shape = forward.getShape();
    add(forward.getQ(), forward.getQView());
    add(forward.getK(), forward.getKView());
    add(forward.getV(), forward.getVView());
    add(forward.getOut(), forward.getOutView());
    statsType = cast<RankedTensorType>(forward.getStats().getType());
    hasStats = isStored(forward.getStats());
    captured = forward.getCaptured();
    capturedViews = forward.getCapturedViews();
    score = &forward.getScore();
    scale = forward.getScale().convertToDouble();
    isCausal = forward.getCausal();
    isZeroMasked = forward.getZeroMasked();
    return;
  }
  auto backward = cast<AttentionBackwardOp>(op);
  shape = backward.getShape();
  add(backward.getQ(), backward.getQView());
  add(backward.getK(), backward.getKView());
  add(backward.getV(), backward.getVView());
  add(backward.getOut(), backward.getOutView());
  add(backward.getDout(), backward.getDoutView());
  add(backward.getDq(), backward.getDqViewAttr());
  add(backward.getDk(), backward.getDkViewAttr());
  add(backward.getDv(), backward.getDvViewAttr());
  statsType = cast<RankedTensorType>(backward.getStats().getType());
  captured = backward.getCaptured();
  capturedViews = backward.getCapturedViews();
  score = &backward.getScore();
  gradient = &backward.getGradient();
  scale = backward.getScale().convertToDouble();
  dqScale = backward.getDqScale().convertToDouble();
  dkScale = backward.getDkScale().convertToDouble();
  isCausal = backward.getCausal();
}

bool AttentionParts::isShared(unsigned dim) const {
  return llvm::any_of(ArrayRef<unsigned>{kDk, kDv}, [&](unsigned tensor) {
    return exists(tensor) && views[tensor].getBatchStrides()[dim] == 0;
  });
}

int64_t fsdp::getAttentionGrid(const AttentionParts &parts,
                               AttentionRows rows) {
  bool isOfKeys = rows == AttentionRows::DkDv;
  int64_t blocks = isOfKeys ? parts.shape.getKeys() : parts.shape.getQueries();
  for (auto [dim, extent] :
       llvm::enumerate(parts.shape.getBatch().asArrayRef()))
    if (!isOfKeys || !parts.isShared(dim))
      blocks *= extent;
  return blocks;
}

int64_t fsdp::getAttentionShared(const AttentionParts &parts,
                                 AttentionRows rows) {
  int64_t head = parts.shape.getHead(), value = parts.shape.getValue();
  switch (rows) {
  case AttentionRows::Out:
    return head + kAttentionThreads;
  case AttentionRows::Dq:
    return head + value + kAttentionThreads;
  case AttentionRows::DkDv:
    return head + value + 2 * kAttentionThreads;
  }
  llvm_unreachable("not one of the rows");
}

//===----------------------------------------------------------------------===//
// Rows
//===----------------------------------------------------------------------===//

void AttentionRowEmitter::emitOut() {
  int64_t head = parts.shape.getHead(), width = parts.shape.getValue();
  int64_t atQ = 0, atP = head;
  beginBlock(/*isOfKeys=*/false);
  fillShared(atQ, kQ, head);
  barrier();
  Value end = index(parts.shape.getKeys());
  if (parts.isCausal)
    end = arith::MinUIOp::create(builder, loc, end, add(row.query, index(1)));
  // The maximum, the sum and each feature so far.
  SmallVector<Value> init(2 + countFeatures(width), scalar(0));
  init[0] = minusInfinity();
  SmallVector<Value> sums = emitLoop(
      index(0), end, kAttentionThreads, init,
      [&](Value first, ValueRange before) -> SmallVector<Value> {
        Point point = row;
        point.key = add(first, thread);
        Value exists = isBelow(point.key, end);
        Value score =
            emitIf(exists, {minusInfinity()}, [&]() -> SmallVector<Value> {
              Value product = dotWithShared(kK, point, atQ, head);
              return {evaluate(*parts.score,
                               {mulF(product, scalar(parts.scale))}, point)};
            })[0];
        // What is no number never wins; it shows in the sum.
        Value highest = reduce(score, vector::CombiningKind::MAXNUMF, 0);
        Value maximum =
            arith::MaxNumFOp::create(builder, loc, before[0], highest);
        Value reference = getReference(maximum);
        Value correction = expF(subF(before[0], reference));
        Value exponential =
            select(exists, expF(subF(score, reference)), scalar(0));
        storeShared(atP, thread, exponential);
        // Its barrier is that of the exponentials.
        Value sum = reduce(exponential, vector::CombiningKind::ADD, 1);
        SmallVector<Value> after = {maximum,
                                    addF(mulF(before[1], correction), sum)};
        Value left = arith::SubIOp::create(builder, loc, end, first);
        Value columns = arith::MinUIOp::create(builder, loc, left,
                                               index(kAttentionThreads));
        for (int64_t i = 0; i != countFeatures(width); ++i) {
          Value feature = add(thread, index(i * kAttentionThreads));
          Value old = mulF(before[2 + i], correction);
          after.push_back(emitIf(
              isBelow(feature, index(width)), {old},
              [&]() -> SmallVector<Value> {
                return emitLoop(
                    index(0), columns, 1, {old},
                    [&](Value column, ValueRange sum) -> SmallVector<Value> {
                      Point at = row;
                      at.key = add(first, column);
                      return {addF(sum[0], mulF(loadShared(atP, column),
                                                load(kV, at, feature)))};
                    });
              })[0]);
        }
        barrier();
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
  emitThreadFeatures(width, [&](int64_t i, Value feature) {
    store(kOut, row, feature, mulF(sums[2 + i], inverse));
  });
  if (!parts.hasStats)
    return;
  Value stats = arguments[parts.types.size()];
  Value isFirst = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq,
                                        thread, index(0));
  emitIf(isFirst, {}, [&]() -> SmallVector<Value> {
    memref::StoreOp::create(builder, loc, select(isMasked, scalar(0), maximum),
                            stats, getStatsAddress(row, /*isInverse=*/false));
    memref::StoreOp::create(builder, loc, inverse, stats,
                            getStatsAddress(row, /*isInverse=*/true));
    return {};
  });
}

void AttentionRowEmitter::emitDq() {
  int64_t head = parts.shape.getHead(), width = parts.shape.getValue();
  int64_t atQ = 0, atDout = head, atG = head + width;
  beginBlock(/*isOfKeys=*/false);
  fillShared(atQ, kQ, head);
  fillShared(atDout, kDout, width);
  barrier();
  Value part =
      emitLoop(thread, index(width), kAttentionThreads, {scalar(0)},
               [&](Value feature, ValueRange sum) -> SmallVector<Value> {
                 return {addF(sum[0], mulF(loadShared(atDout, feature),
                                           load(kOut, row, feature)))};
               })[0];
  Value delta = reduce(part, vector::CombiningKind::ADD, 0);
  Value end = index(parts.shape.getKeys());
  if (parts.isCausal)
    end = arith::MinUIOp::create(builder, loc, end, add(row.query, index(1)));
  SmallVector<Value> init(countFeatures(head), scalar(0));
  SmallVector<Value> sums = emitLoop(
      index(0), end, kAttentionThreads, init,
      [&](Value first, ValueRange before) -> SmallVector<Value> {
        Point point = row;
        point.key = add(first, thread);
        emitIf(isBelow(point.key, end), {}, [&]() -> SmallVector<Value> {
          Value raw =
              mulF(dotWithShared(kK, point, atQ, head), scalar(parts.scale));
          Value dp = dotWithShared(kV, point, atDout, width);
          storeShared(atG, thread, emitGradient(point, raw, dp, delta).second);
          return {};
        });
        barrier();
        Value left = arith::SubIOp::create(builder, loc, end, first);
        Value columns = arith::MinUIOp::create(builder, loc, left,
                                               index(kAttentionThreads));
        SmallVector<Value> after;
        for (int64_t i = 0; i != countFeatures(head); ++i) {
          Value feature = add(thread, index(i * kAttentionThreads));
          after.push_back(emitIf(
              isBelow(feature, index(head)), {before[i]},
              [&]() -> SmallVector<Value> {
                return emitLoop(
                    index(0), columns, 1, {before[i]},
                    [&](Value column, ValueRange sum) -> SmallVector<Value> {
                      Point at = row;
                      at.key = add(first, column);
                      return {addF(sum[0], mulF(loadShared(atG, column),
                                                load(kK, at, feature)))};
                    });
              })[0]);
        }
        barrier();
        return after;
      });
  emitThreadFeatures(head, [&](int64_t i, Value feature) {
    store(kDq, row, feature, mulF(sums[i], scalar(parts.dqScale)));
  });
}

void AttentionRowEmitter::emitDkDv() {
  int64_t head = parts.shape.getHead(), width = parts.shape.getValue();
  int64_t atK = 0, atV = head, atP = head + width,
          atG = atP + kAttentionThreads;
  int64_t headCount = parts.exists(kDk) ? countFeatures(head) : 0;
  int64_t widthCount = parts.exists(kDv) ? countFeatures(width) : 0;
  beginBlock(/*isOfKeys=*/true);
  fillShared(atK, kK, head);
  fillShared(atV, kV, width);
  barrier();
  int64_t rows = parts.shape.getQueries();
  for (auto [dim, extent] :
       llvm::enumerate(parts.shape.getBatch().asArrayRef()))
    if (parts.isShared(dim))
      rows *= extent;
  SmallVector<Value> init(headCount + widthCount, scalar(0));
  SmallVector<Value> sums = emitLoop(
      index(0), index(rows), kAttentionThreads, init,
      [&](Value first, ValueRange before) -> SmallVector<Value> {
        Value number = add(first, thread);
        emitIf(isBelow(number, index(rows)), {}, [&]() -> SmallVector<Value> {
          Point point = getRowPoint(number);
          Value isSeen = arith::ConstantIntOp::create(builder, loc, 1, 1);
          if (parts.isCausal)
            isSeen =
                arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ule,
                                      point.key, point.query);
          SmallVector<Value> both = emitIf(
              isSeen, {scalar(0), scalar(0)}, [&]() -> SmallVector<Value> {
                Value raw = mulF(dotWithShared(kQ, point, atK, head),
                                 scalar(parts.scale));
                Value dp = dotWithShared(kDout, point, atV, width);
                Value delta = dot(kDout, kOut, point, width);
                auto [probability, gradient] =
                    emitGradient(point, raw, dp, delta);
                return {probability, gradient};
              });
          storeShared(atP, thread, both[0]);
          storeShared(atG, thread, both[1]);
          return {};
        });
        barrier();
        Value left = arith::SubIOp::create(builder, loc, index(rows), first);
        Value columns = arith::MinUIOp::create(builder, loc, left,
                                               index(kAttentionThreads));
        SmallVector<Value> after;
        auto accumulate = [&](int64_t count, int64_t size, int64_t factors,
                              unsigned tensor) {
          for (int64_t i = 0; i != count; ++i) {
            Value feature = add(thread, index(i * kAttentionThreads));
            Value old = before[after.size()];
            after.push_back(emitIf(
                isBelow(feature, index(size)), {old},
                [&]() -> SmallVector<Value> {
                  return emitLoop(
                      index(0), columns, 1, {old},
                      [&](Value column, ValueRange sum) -> SmallVector<Value> {
                        Point at = getRowPoint(add(first, column));
                        return {addF(sum[0], mulF(loadShared(factors, column),
                                                  load(tensor, at, feature)))};
                      });
                })[0]);
          }
        };
        accumulate(headCount, head, atG, kQ);
        accumulate(widthCount, width, atP, kDout);
        barrier();
        return after;
      });
  if (parts.exists(kDk))
    emitThreadFeatures(head, [&](int64_t i, Value feature) {
      store(kDk, row, feature, mulF(sums[i], scalar(parts.dkScale)));
    });
  if (parts.exists(kDv))
    emitThreadFeatures(width, [&](int64_t i, Value feature) {
      store(kDv, row, feature, sums[headCount + i]);
    });
}

void fsdp::emitAttentionRows(const AttentionParts &parts, AttentionRows rows,
                             OpBuilder &builder, Location loc,
                             ValueRange arguments, Value slots, Value shared) {
  AttentionRowEmitter emitter(parts, builder, loc, arguments, slots, shared);
  switch (rows) {
  case AttentionRows::Out:
    return emitter.emitOut();
  case AttentionRows::Dq:
    return emitter.emitDq();
  case AttentionRows::DkDv:
    return emitter.emitDkDv();
  }
}
