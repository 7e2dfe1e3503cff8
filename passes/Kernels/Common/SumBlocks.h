//===- SumBlocks.h - Sums of sums in loops ----------------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A float sum of n terms that are added one after the other is off by up to
// n / 2 roundings. So no more than kSumBlock are: the sums of blocks of terms
// are terms of the next level, which is cut the same way. A level adds up to
// kSumBlock / 2 roundings, and there are log n / log kSumBlock of them. Which
// terms are a block depends on the sizes of loops alone. A loop whose size is
// not static is cut for 2^25 iterations: of n more, its outermost level adds up
// n / 2^20 sums one after the other. Everything else that a loop carries goes
// through all iterations, one after the other.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_PASSES_KERNELS_COMMON_SUMBLOCKS_H
#define FSDP_PASSES_KERNELS_COMMON_SUMBLOCKS_H

#include "mlir/IR/Builders.h"

namespace mlir::fsdp {

/// Terms of a float sum that are added one after the other, at most.
constexpr int64_t kSumBlock = 32;

/// How the iterations of a loop that adds up are cut.
struct SumBlocks {
  /// Blocks of a block of the next level, in iterations for the first level,
  /// innermost first. A first level of 1: each iteration has a sum of its own.
  /// Empty: the loop adds up one after the other.
  SmallVector<int64_t> sizes;
  /// Terms that the outermost level adds up.
  int64_t terms = 1;
};

/// Cuts a loop of `iterations`, each of which adds `terms` to the sum; 0 terms,
/// of a loop inside without iterations, count as one. The size of a block
/// divides what it is cut from where one of at least half of the largest size
/// does.
SumBlocks planSumBlocks(int64_t iterations, int64_t terms = 1);

/// A loop from `begin`, which is below `step`, to `end`, cut into `blocks`. It
/// carries `partials`, which `body` may change by what it emits at the index
/// that it is given. Those with a zero of their type in `zeros` are summed in
/// blocks; those with null there go through all iterations.
void emitSumLoop(OpBuilder &builder, Location loc, Value begin, Value end,
                 int64_t step, const SumBlocks &blocks, ArrayRef<Value> zeros,
                 MutableArrayRef<Value> partials,
                 llvm::function_ref<void(Value)> body);

/// Lowers long float sums of linalg ops on buffers in `root` to loops that sum
/// in blocks.
void lowerLongSums(Operation *root);

/// A zero of `type`, floats or a vector of them.
Value createZero(OpBuilder &builder, Location loc, Type type);

/// The same where `combiner` adds floats; null where it combines otherwise: an
/// entry of emitSumLoop's `zeros`.
Value createSumZero(OpBuilder &builder, Location loc, Operation *combiner,
                    Type type);

} // namespace mlir::fsdp

#endif // FSDP_PASSES_KERNELS_COMMON_SUMBLOCKS_H
