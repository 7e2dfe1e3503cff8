//===- AttentionRowEmitter.h - Code of attention's rows ---------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_PASSES_KERNELS_CUDA_ATTENTIONROWEMITTER_H
#define FSDP_PASSES_KERNELS_CUDA_ATTENTIONROWEMITTER_H

#include "AttentionRows.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

namespace mlir::fsdp {

/// Emits what AttentionRows.h describes.
class AttentionRowEmitter {
public:
  AttentionRowEmitter(const AttentionParts &parts, OpBuilder &builder,
                      Location loc, ValueRange arguments, Value slots,
                      Value shared)
      : parts(parts), builder(builder), loc(loc), slots(slots), shared(shared),
        arguments(arguments) {}

  void emitOut();
  void emitDq();
  void emitDkDv();

private:
  /// A point of the matrix of scores.
  struct Point {
    SmallVector<Value> batch;
    Value query, key;
  };

  // Where a block is.
  void beginBlock(bool isOfKeys);
  Point getRowPoint(Value number);

  // Memory.
  Value getAddress(StridedAttr view, int64_t offset, const Point &point,
                   Value row, Value column);
  Value load(unsigned tensor, const Point &point, Value column);
  void store(unsigned tensor, const Point &point, Value column, Value value);
  Value getStatsAddress(const Point &point, bool isInverse);
  Value loadStats(const Point &point, bool isInverse);
  void fillShared(int64_t at, unsigned tensor, int64_t size);
  Value loadShared(int64_t at, Value i);
  void storeShared(int64_t at, Value i, Value value);

  // Values.
  Value dotWithShared(unsigned tensor, const Point &point, int64_t at,
                      int64_t size);
  Value dot(unsigned a, unsigned b, const Point &point, int64_t size);
  Value evaluate(Region &body, ArrayRef<Value> first, const Point &point);
  Value loadCaptured(unsigned i, const Point &point, Type type);
  Value getReference(Value maximum);
  Value reduce(Value value, vector::CombiningKind kind, int64_t which);
  /// The probability and the gradient of q k^T at a point.
  std::pair<Value, Value> emitGradient(const Point &point, Value raw, Value dp,
                                       Value delta);

  // Loops.
  SmallVector<Value>
  emitLoop(Value begin, Value end, int64_t step, ValueRange init,
           llvm::function_ref<SmallVector<Value>(Value, ValueRange)> body);
  SmallVector<Value> emitIf(Value condition, ArrayRef<Value> otherwise,
                            llvm::function_ref<SmallVector<Value>()> body);
  void emitThreadFeatures(int64_t size,
                          llvm::function_ref<void(int64_t, Value)> body);
  int64_t countFeatures(int64_t size) {
    return llvm::divideCeil(size, kAttentionThreads);
  }

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
  Value slots, shared;
  ValueRange arguments;
  Value thread;
  /// The block's row: its batch, and its query or key.
  Point row;
};

} // namespace mlir::fsdp

#endif // FSDP_PASSES_KERNELS_CUDA_ATTENTIONROWEMITTER_H
