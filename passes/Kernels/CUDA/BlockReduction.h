//===- BlockReduction.h - Values of a block's threads -----------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_PASSES_KERNELS_CUDA_BLOCKREDUCTION_H
#define FSDP_PASSES_KERNELS_CUDA_BLOCKREDUCTION_H

#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Builders.h"

namespace mlir::fsdp {

constexpr int64_t kWarpThreads = 32;

/// `value`, a scalar of up to 64 bits, as the low bits of an i64, and back.
Value toBits64(OpBuilder &builder, Location loc, Value value);
Value fromBits64(OpBuilder &builder, Location loc, Value bits, Type type);

/// Combines the `value` of each of `count` neighbouring threads of a warp (a
/// power of two, up to 32; the first one's number is a multiple of it). All of
/// them get the result, the same bits. All 32 threads must get here.
Value reduceInWarp(OpBuilder &builder, Location loc, Value value,
                   vector::CombiningKind kind, int64_t count);

/// Elements of `slots` that one reduction over so many threads needs.
int64_t getSlotsPerReduction(int64_t threads);

/// A value of each thread, a scalar of up to 64 bits, that a block combines.
struct BlockValue {
  Value value;
  vector::CombiningKind kind;
  /// The neutral element of `kind`; null where warps are a power of two.
  Value neutral;
};

/// Combines values of each of a block's `threads` threads (a multiple of 32, up
/// to 1024): a butterfly of shuffles in each warp, then one over the warps'
/// results, which lie in `slots` (i64, shared memory) from `firstSlot` on,
/// getSlotsPerReduction() of each value. Every thread gets the results, the
/// same bits. All threads must get here; there is one barrier, in front of
/// which slots are written, none for one warp: another reduction in the same
/// slots needs one of its own before.
SmallVector<Value> reduceInBlock(OpBuilder &builder, Location loc,
                                 ArrayRef<BlockValue> values, Value thread,
                                 int64_t threads, Value slots, Value firstSlot);

} // namespace mlir::fsdp

#endif // FSDP_PASSES_KERNELS_CUDA_BLOCKREDUCTION_H
