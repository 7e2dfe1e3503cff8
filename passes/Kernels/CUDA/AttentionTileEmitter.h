//===- AttentionTileEmitter.h - Code of attention's tiles --------*- C++
//-*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_PASSES_KERNELS_CUDA_ATTENTIONTILEEMITTER_H
#define FSDP_PASSES_KERNELS_CUDA_ATTENTIONTILEEMITTER_H

#include "AttentionTiles.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

namespace mlir::fsdp {

/// Emits what AttentionTiles.h describes.
class AttentionTileEmitter {
public:
  AttentionTileEmitter(const AttentionParts &parts, OpBuilder &builder,
                       Location loc, ValueRange arguments, Value shared);

  void emitOut();
  void emitDq();
  void emitDkDv();

private:
  /// A point of the matrix of scores.
  struct Point {
    SmallVector<Value> batch;
    Value query, key;
  };
  /// A tensor's part of a tile: where it lies in shared memory, and how many
  /// features the tensor has.
  struct Part {
    unsigned tensor;
    int64_t at, features;
  };
  using Values = SmallVector<Value>;

  // Where a thread is.
  void beginBlock(AttentionRows rows);
  /// Takes the remainder by `extent` off `number`.
  Value split(Value &number, int64_t extent);
  /// The block's row number `number`, and column number `number` of all. Of
  /// numbers beyond the last one the last: what is read there exists.
  Point getRow(Value number);
  Point getColumn(Value number);
  Point join(const Point &row, const Point &column);

  // Memory.
  Value getAddress(StridedAttr view, int64_t offset, const Point &point,
                   Value row, Value column);
  Value load(unsigned tensor, const Point &point, Value column);
  void store(unsigned tensor, const Point &point, Value column, Value value);
  Value getStatsAddress(const Point &point, bool isInverse);
  Value loadStats(const Point &point, bool isInverse);
  Value loadShared(int64_t at, Value i);
  void storeShared(int64_t at, Value i, Value value);
  /// Element (row, column) of a tile whose rows have `width` floats and one
  /// more, so that neighbouring rows lie in different banks.
  Value at(Value row, int64_t width, Value column);

  // Tiles. All threads of the block come to each.
  void loadTile(const Part &part, bool isOfRows, Value firstColumn,
                int64_t firstFeature);
  /// The thread's scores of rows times columns.
  Values multiply(const Part &rows, const Part &columns, Value firstColumn);
  /// Adds weights times columns to the thread's features of its row.
  Values accumulate(int64_t weights, const Part &columns, Value firstColumn,
                    bool isLoaded, ValueRange sums);
  /// Calls `body` for each feature of the thread's row that exists.
  void emitFeatures(int64_t features,
                    llvm::function_ref<void(int64_t, Value)> body);
  int64_t countFeatures(int64_t features) const;
  Value getThreadColumn(int64_t score);
  Value isColumn(Value firstColumn, int64_t score);
  bool isWhole(const Part &part) const {
    return part.features <= kTileFeatures;
  }

  // Values.
  Value evaluate(Region &body, ArrayRef<Value> first, const Point &point);
  Value loadCaptured(unsigned i, const Point &point, Type type);
  Value getReference(Value maximum);
  /// Over the threads that share a row, or that are as many neighbours.
  Value reduce(Value value, vector::CombiningKind kind,
               int64_t threads = kRowThreads);
  /// sum of dout * out over the features of a query, by `threads` neighbours,
  /// of which the thread is number `which`.
  Value emitDelta(const Point &query, Value which, int64_t threads);
  /// The probability and the gradient of q k^T at a point.
  std::pair<Value, Value> emitGradient(const Point &point, Value raw, Value dp,
                                       Value delta);

  // Loops.
  Values emitLoop(Value begin, Value end, int64_t step, ValueRange init,
                  llvm::function_ref<Values(Value, ValueRange)> body);
  void emitIf(Value condition, llvm::function_ref<void()> body);

  // Scalars.
  Value index(int64_t value) {
    return arith::ConstantIndexOp::create(builder, loc, value);
  }
  Value scalar(float value) {
    return arith::ConstantOp::create(builder, loc,
                                     builder.getF32FloatAttr(value));
  }
  Value add(Value a, Value b) {
    return arith::AddIOp::create(builder, loc, a, b);
  }
  Value mul(Value a, int64_t b) {
    return arith::MulIOp::create(builder, loc, a, index(b));
  }
  Value addF(Value a, Value b) {
    return arith::AddFOp::create(builder, loc, a, b);
  }
  Value subF(Value a, Value b) {
    return arith::SubFOp::create(builder, loc, a, b);
  }
  Value mulF(Value a, Value b) {
    return arith::MulFOp::create(builder, loc, a, b);
  }
  Value expF(Value a) { return math::ExpOp::create(builder, loc, a); }
  Value isBelow(Value a, Value b) {
    return arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ult, a, b);
  }
  Value least(Value a, Value b) {
    return arith::MinUIOp::create(builder, loc, a, b);
  }
  Value isEqual(Value a, Value b) {
    return arith::CmpFOp::create(builder, loc, arith::CmpFPredicate::OEQ, a, b);
  }
  Value select(Value condition, Value a, Value b) {
    return arith::SelectOp::create(builder, loc, condition, a, b);
  }
  Value minusInfinity() {
    return scalar(-std::numeric_limits<float>::infinity());
  }
  void barrier() { gpu::BarrierOp::create(builder, loc); }

  const AttentionParts &parts;
  OpBuilder &builder;
  Location loc;
  ValueRange arguments;
  Value shared;
  /// The thread, its row in the tile and its number among those that share it.
  Value thread, row, lane;
  bool isOfKeys = false;
  /// The block's batch, without the dimensions that are summed over.
  SmallVector<Value> batch;
  Value firstRow;
  int64_t rowCount = 0, columnCount = 0;
  /// Shared memory: parts of rows and columns, weights and numbers of columns.
  Part q, k, v, dout;
  int64_t atWeights = 0, atGradients = 0, atDeltas = 0;
};

} // namespace mlir::fsdp

#endif // FSDP_PASSES_KERNELS_CUDA_ATTENTIONTILEEMITTER_H
