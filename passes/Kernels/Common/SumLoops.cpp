//===- SumLoops.cpp - Loops that sum in blocks ----------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Kernels/Common/SumBlocks.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"

using namespace mlir;
using namespace mlir::fsdp;

Value fsdp::createZero(OpBuilder &builder, Location loc, Type type) {
  return arith::ConstantOp::create(builder, loc, type,
                                   builder.getZeroAttr(type));
}

Value fsdp::createSumZero(OpBuilder &builder, Location loc, Operation *combiner,
                          Type type) {
  return isa<arith::AddFOp>(combiner) ? createZero(builder, loc, type)
                                      : Value();
}

namespace {
/// Emits the levels of one loop, the outermost first.
class SumLoop {
public:
  SumLoop(OpBuilder &builder, Location loc, Value end, int64_t step,
          const SumBlocks &blocks, ArrayRef<Value> zeros,
          MutableArrayRef<Value> partials, llvm::function_ref<void(Value)> body)
      : builder(builder), loc(loc), end(end), step(step), blocks(blocks),
        zeros(zeros), partials(partials), body(body) {}

  void emit(Value begin) { emitLevel(blocks.sizes.size(), begin, end); }

private:
  void emitLevel(size_t level, Value from, Value to);
  void emitBlock(size_t level, Value first);
  /// Indices from one block of `level` to the next.
  int64_t getStride(size_t level) const;
  Value getEnd(size_t level, Value first);

  OpBuilder &builder;
  Location loc;
  Value end;
  int64_t step;
  const SumBlocks &blocks;
  ArrayRef<Value> zeros;
  MutableArrayRef<Value> partials;
  llvm::function_ref<void(Value)> body;
};
} // namespace

int64_t SumLoop::getStride(size_t level) const {
  int64_t stride = step;
  for (int64_t size : ArrayRef(blocks.sizes).take_front(level))
    stride *= size;
  return stride;
}

/// Where the block of `level` that begins at `first` ends: the last one may be
/// shorter.
Value SumLoop::getEnd(size_t level, Value first) {
  int64_t stride = getStride(level);
  Value size = arith::ConstantIndexOp::create(builder, loc, stride);
  Value next = arith::AddIOp::create(builder, loc, first, size);
  std::optional<int64_t> constant = getConstantIntValue(end);
  if (constant && *constant % stride == 0)
    return next;
  return arith::MinUIOp::create(builder, loc, next, end);
}

/// Blocks of `level`, one after the other; for 0: iterations.
void SumLoop::emitLevel(size_t level, Value from, Value to) {
  Value stride = arith::ConstantIndexOp::create(builder, loc, getStride(level));
  auto op = scf::ForOp::create(builder, loc, from, to, stride, partials);
  builder.setInsertionPointToStart(op.getBody());
  llvm::copy(op.getRegionIterArgs(), partials.begin());
  if (level == 0)
    body(op.getInductionVar());
  else
    emitBlock(level, op.getInductionVar());
  if (!partials.empty())
    scf::YieldOp::create(builder, loc, partials);
  llvm::copy(op.getResults(), partials.begin());
  builder.setInsertionPointAfter(op);
}

/// The block of `level` that begins at `first`, and what comes of it as one
/// term of the level's sums.
void SumLoop::emitBlock(size_t level, Value first) {
  SmallVector<Value> sums(partials);
  for (auto [partial, zero] : llvm::zip_equal(partials, zeros))
    if (zero)
      partial = zero;
  if (blocks.sizes[level - 1] == 1)
    body(first);
  else
    emitLevel(level - 1, first, getEnd(level, first));
  for (auto [partial, sum, zero] : llvm::zip_equal(partials, sums, zeros))
    if (zero)
      partial = arith::AddFOp::create(builder, loc, sum, partial);
}

void fsdp::emitSumLoop(OpBuilder &builder, Location loc, Value begin, Value end,
                       int64_t step, const SumBlocks &blocks,
                       ArrayRef<Value> zeros, MutableArrayRef<Value> partials,
                       llvm::function_ref<void(Value)> body) {
  SumLoop(builder, loc, end, step, blocks, zeros, partials, body).emit(begin);
}
