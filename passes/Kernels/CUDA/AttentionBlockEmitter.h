//===- AttentionBlockEmitter.h - Points and values of attention -*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What the code of a block needs however it multiplies: which rows and columns
// of the scores it has, addresses, the score function, statistics and
// gradients of scores.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_PASSES_KERNELS_CUDA_ATTENTIONBLOCKEMITTER_H
#define FSDP_PASSES_KERNELS_CUDA_ATTENTIONBLOCKEMITTER_H

#include "AttentionTiles.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

namespace mlir::fsdp {

/// A block computes rows: queries, or keys for the gradients of keys and
/// values. The other side are its columns.
class AttentionBlockEmitter {
protected:
  AttentionBlockEmitter(const AttentionParts &parts, OpBuilder &builder,
                        Location loc, ValueRange arguments)
      : parts(parts), builder(builder), loc(loc), arguments(arguments) {}

  /// A point of the matrix of scores.
  struct Point {
    SmallVector<Value> batch;
    Value query, key;
  };
  using Values = SmallVector<Value>;

  // Where a block is.
  /// Sets the members below. A block has `tileRows` rows and goes over tiles of
  /// `tileColumns`. What is left of its number without rows and batch is
  /// returned.
  Value enterBlock(AttentionRows rows, int64_t tileRows, int64_t tileColumns);
  /// Takes the remainder by `extent` off `number`.
  Value split(Value &number, int64_t extent);
  /// The block's row number `number`, and the column that is `offset` after the
  /// tile's first one, `first`. Of those beyond the last one the last: what is
  /// read there exists.
  Point getRow(Value number);
  Point getColumn(Value first, Value offset);
  Point join(const Point &row, const Point &column);
  bool isOfRows(unsigned tensor) const;
  /// Whether such a column exists; null where all columns of all tiles do.
  Value isColumn(Value first, Value offset);
  Value getPlace(Value first, Value offset);
  /// Whether all points of the tile exist and none is masked, if scores are
  /// plain; null where that is so of all tiles.
  Value isWhole(Value first);
  /// Of a stretch of columns, where tiles begin and end of which the rows of
  /// the block see a column, or are seen by one.
  Value getColumnBegin();
  Value getColumnEnd();

  /// A tile of columns: its first one, and a multiple of `tileColumns` that is
  /// one of them more than that of the tile before it in a block's loop.
  struct Tile {
    Value at, first;
  };
  Tile getFirstTile();
  /// Tiles end where Tile::at is this.
  Value getTileEnd();

  // Memory.
  Value getAddress(StridedAttr view, int64_t offset, const Point &point,
                   Value row, Value column);
  /// Element of `tensor` at the row of `point`.
  Value getElement(unsigned tensor, const Point &point, Value column);
  Value load(unsigned tensor, const Point &point, Value column);
  void store(unsigned tensor, const Point &point, Value column, Value value);
  Value getStatsAddress(const Point &point, bool isInverse);
  Value loadStats(const Point &point, bool isInverse);
  /// The number of a query among those of all batches, and where the workspace
  /// has a value of it.
  Value getRowNumber(const Point &point);
  Value getRowValueAddress(const Point &point, AttentionRowValue which);
  Value getWorkspace() { return arguments.back(); }

  // Values.
  Value evaluate(Region &body, ArrayRef<Value> first, const Point &point);
  /// The factor of the probability at @point; null: there is none.
  Value getFactorAt(const Point &point);
  /// Captured elements that are the same for all scores, once for a block.
  void loadInvariants();
  Value loadCaptured(unsigned i, const Point &point, Type type);
  Value getReference(Value maximum);
  /// Over so many threads that are neighbours.
  Value reduce(Value value, vector::CombiningKind kind, int64_t threads);
  /// What the features of a row of the output are multiplied by, and whether
  /// all of its scores are minus infinity.
  std::pair<Value, Value> getInverse(Value maximum, Value sum);
  void storeStats(const Point &query, Value maximum, Value inverse,
                  Value isMasked);
  /// What the rows of a gradient share. Where the scale is folded, without an
  /// inverse: `maximum` is what is added to exponents of base 2.
  struct Statistics {
    Value maximum, inverse, delta;
  };
  /// What values are weighted by, the probability times its factor, and the
  /// gradient of q k^T at a point. @dp is without the factor.
  std::pair<Value, Value> emitGradient(const Point &point, Value raw, Value dp,
                                       const Statistics &statistics);

  // Loops.
  Values emitLoop(Value begin, Value end, int64_t step, ValueRange init,
                  llvm::function_ref<Values(Value, ValueRange)> body);
  void emitIf(Value condition, llvm::function_ref<void()> body);
  /// A loop over tiles from the first one on, those of each stretch in turn.
  /// `body` gets a tile and the one after it.
  Values emitTileLoop(
      const Tile &first, Value end, ValueRange init,
      llvm::function_ref<Values(const Tile &, const Tile &, ValueRange)> body);

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
  /// @value; times @factor, where that is not null.
  Value mulFactor(Value value, Value factor) {
    return factor ? mulF(value, factor) : value;
  }
  Value fma(Value a, Value b, Value c) {
    return math::FmaOp::create(builder, loc, a, b, c);
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
  Value thread;
  /// Of captured tensors; null: scores differ.
  SmallVector<Value> invariants;
  bool isOfKeys = false;
  /// The block's batch, without the dimensions that are summed over.
  SmallVector<Value> batch;
  Value firstRow;
  int64_t rowCount = 0, tileRows = 0, tileColumns = 0;
  /// Columns have numbers below `columnCount`, in stretches of whole tiles: of
  /// `stretch` numbers the first `columnsOfStretch` are columns. A stretch has
  /// those of one product, of which there are several where rows are keys that
  /// these share; or, where no tile is skipped because the mask hides it whole,
  /// those of all.
  int64_t columnCount = 0, stretch = 0, columnsOfStretch = 0;
  bool skipsTiles = false, isOfOneProduct = true;
};

} // namespace mlir::fsdp

#endif // FSDP_PASSES_KERNELS_CUDA_ATTENTIONBLOCKEMITTER_H
