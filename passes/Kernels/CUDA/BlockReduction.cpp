//===- BlockReduction.cpp - One value of those of a block's threads -------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "BlockReduction.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace mlir::fsdp;

/// `value` as an integer of its own width.
static Value toInteger(OpBuilder &builder, Location loc, Value value) {
  Type type = value.getType();
  if (type.isIndex())
    return arith::IndexCastOp::create(builder, loc, builder.getI64Type(),
                                      value);
  if (type.isInteger())
    return value;
  Type bits = builder.getIntegerType(type.getIntOrFloatBitWidth());
  return arith::BitcastOp::create(builder, loc, bits, value);
}

static Value fromInteger(OpBuilder &builder, Location loc, Value bits,
                         Type type) {
  if (type.isIndex())
    return arith::IndexCastOp::create(builder, loc, type, bits);
  if (type.isInteger())
    return bits;
  return arith::BitcastOp::create(builder, loc, type, bits);
}

/// Zero extends or truncates.
static Value resize(OpBuilder &builder, Location loc, Value bits,
                    unsigned width) {
  unsigned from = bits.getType().getIntOrFloatBitWidth();
  Type type = builder.getIntegerType(width);
  if (from < width)
    return arith::ExtUIOp::create(builder, loc, type, bits);
  if (from > width)
    return arith::TruncIOp::create(builder, loc, type, bits);
  return bits;
}

static unsigned getWidth(Type type) {
  return type.isIndex() ? 64 : type.getIntOrFloatBitWidth();
}

Value fsdp::toBits64(OpBuilder &builder, Location loc, Value value) {
  return resize(builder, loc, toInteger(builder, loc, value), 64);
}

Value fsdp::fromBits64(OpBuilder &builder, Location loc, Value bits,
                       Type type) {
  Value integer = resize(builder, loc, bits, getWidth(type));
  return fromInteger(builder, loc, integer, type);
}

static Value shuffleWord(OpBuilder &builder, Location loc, Value word,
                         int64_t distance) {
  return gpu::ShuffleOp::create(builder, loc, word, distance, /*width=*/32,
                                gpu::ShuffleMode::XOR)
      .getShuffleResult();
}

/// The value of the lane whose number differs in bit `distance`. A shuffle
/// moves 32 bits.
static Value shuffleXor(OpBuilder &builder, Location loc, Value value,
                        int64_t distance) {
  Type type = value.getType();
  if (type.isF32() || type.isInteger(32))
    return shuffleWord(builder, loc, value, distance);
  Value bits = toInteger(builder, loc, value);
  unsigned width = getWidth(type);
  if (width <= 32) {
    Value word =
        shuffleWord(builder, loc, resize(builder, loc, bits, 32), distance);
    return fromInteger(builder, loc, resize(builder, loc, word, width), type);
  }
  Value half = arith::ConstantIntOp::create(builder, loc, 32, 64);
  Value low =
      shuffleWord(builder, loc, resize(builder, loc, bits, 32), distance);
  Value high = arith::ShRUIOp::create(builder, loc, bits, half);
  high = shuffleWord(builder, loc, resize(builder, loc, high, 32), distance);
  high =
      arith::ShLIOp::create(builder, loc, resize(builder, loc, high, 64), half);
  Value both =
      arith::OrIOp::create(builder, loc, high, resize(builder, loc, low, 64));
  return fromInteger(builder, loc, both, type);
}

/// Both sides of an exchange combine the same two values, and combiners
/// commute.
Value fsdp::reduceInWarp(OpBuilder &builder, Location loc, Value value,
                         vector::CombiningKind kind, int64_t count) {
  for (int64_t distance = count / 2; distance != 0; distance /= 2)
    value = vector::makeArithReduction(
        builder, loc, kind, value, shuffleXor(builder, loc, value, distance));
  return value;
}

int64_t fsdp::getSlotsPerReduction(int64_t threads) {
  return threads == kWarpThreads ? 0 : threads / kWarpThreads;
}

SmallVector<Value> fsdp::reduceInBlock(OpBuilder &builder, Location loc,
                                       ArrayRef<BlockValue> values,
                                       Value thread, int64_t threads,
                                       Value slots, Value firstSlot) {
  SmallVector<Value> combined;
  for (const BlockValue &each : values)
    combined.push_back(
        reduceInWarp(builder, loc, each.value, each.kind, kWarpThreads));
  int64_t warps = threads / kWarpThreads;
  if (warps == 1)
    return combined;
  auto index = [&](int64_t number) {
    return arith::ConstantIndexOp::create(builder, loc, number);
  };
  // The slot of value i and warp `warp`.
  auto getSlot = [&](size_t i, Value warp) -> Value {
    Value first = arith::AddIOp::create(builder, loc, firstSlot,
                                        index(int64_t(i) * warps));
    return arith::AddIOp::create(builder, loc, first, warp);
  };
  Value warp =
      arith::DivUIOp::create(builder, loc, thread, index(kWarpThreads));
  Value lane =
      arith::RemUIOp::create(builder, loc, thread, index(kWarpThreads));
  Value isFirst = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq,
                                        lane, index(0));
  auto branch =
      scf::IfOp::create(builder, loc, isFirst, /*withElseRegion=*/false);
  builder.setInsertionPointToStart(branch.thenBlock());
  for (auto [i, value] : llvm::enumerate(combined))
    memref::StoreOp::create(builder, loc, toBits64(builder, loc, value), slots,
                            getSlot(i, warp));
  builder.setInsertionPointAfter(branch);
  gpu::BarrierOp::create(builder, loc);
  int64_t meeting = llvm::PowerOf2Ceil(warps);
  Value other = arith::RemUIOp::create(builder, loc, lane, index(meeting));
  Value isWarp;
  if (meeting != warps) {
    isWarp = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ult,
                                   other, index(warps));
    other = arith::MinUIOp::create(builder, loc, other, index(warps - 1));
  }
  for (auto [i, value] : llvm::enumerate(combined)) {
    Value bits = memref::LoadOp::create(builder, loc, slots, getSlot(i, other));
    Value read = fromBits64(builder, loc, bits, value.getType());
    if (isWarp)
      read = arith::SelectOp::create(builder, loc, isWarp, read,
                                     values[i].neutral);
    value = reduceInWarp(builder, loc, read, values[i].kind, meeting);
  }
  return combined;
}
