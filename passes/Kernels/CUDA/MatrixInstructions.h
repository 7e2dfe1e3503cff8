//===- MatrixInstructions.h - Products of a warp ----------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Products of 16-bit floats by tensor cores, and what feeds them, as ops of the
// LLVM and NVVM dialects: nvgpu.mma.sync has no lowering for bf16. Where a
// thread's numbers lie in a matrix is PTX's (fragments of mma.m16n8k16), with
// group = lane / 4 and pair = 2 (lane % 4):
//
//   A, 16 x 16, 4 registers   rows group, +8; columns pair, pair + 1, then + 8
//   B, 16 x 8, 2 registers    rows pair, pair + 1, then + 8; column group
//   C, 16 x 8, 4 floats       row group: columns pair, pair + 1; then row + 8
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_PASSES_KERNELS_CUDA_MATRIXINSTRUCTIONS_H
#define FSDP_PASSES_KERNELS_CUDA_MATRIXINSTRUCTIONS_H

#include "mlir/IR/Builders.h"

namespace mlir::fsdp {

/// The address of the first element of flat memory.
Value createPointer(OpBuilder &builder, Location loc, Value memory);

/// Whether `pointer` is a multiple of `bytes`, a power of two.
Value isAligned(OpBuilder &builder, Location loc, Value pointer, int64_t bytes);

/// The bits of `count` (1, 2, 4, 8) neighbouring numbers of 16 bits from
/// element `index` of `pointer` on, which lie at a multiple of their size.
Value loadBits(OpBuilder &builder, Location loc, Value pointer, Value index,
               int64_t count);
void storeBits(OpBuilder &builder, Location loc, Value bits, Value pointer,
               Value index);

/// Begins to copy `bytes`, 16 or 4, from element `from` of `global` on to
/// element `to` of `shared` (cp.async), zeros where `exists`, if any, is false.
/// Both lie at multiples of as many bytes.
void beginCopy(OpBuilder &builder, Location loc, Value global, Value from,
               Value shared, Value to, Value exists, int32_t bytes = 16);

/// Two neighbouring f32 from element `index` of `pointer` on, at a multiple of
/// 8 bytes.
std::array<Value, 2> loadFloatPair(OpBuilder &builder, Location loc,
                                   Value pointer, Value index);

/// 2^x by the device's instruction, at most 2 units in the last place off;
/// results below 2^-126 are 0.
Value approximateExp2(OpBuilder &builder, Location loc, Value x);

/// Ends a group of a thread's copies; waits for all groups. Other threads see
/// them after a barrier.
void endCopies(OpBuilder &builder, Location loc);
void waitForCopies(OpBuilder &builder, Location loc);

/// The floats of type `type` in what loadBits returned, as f32.
SmallVector<Value> unpackFloats(OpBuilder &builder, Location loc, Value bits,
                                int64_t count, Type type);

/// Two f32 rounded to `type`, the first one in the low bits of an i32.
Value packFloats(OpBuilder &builder, Location loc, Value low, Value high,
                 Type type);

/// Four matrices of 8 x 8 numbers of 16 bits in shared memory, a register each.
/// Lanes 8 i to 8 i + 7 have, in `index`, the elements from `pointer` on at
/// which rows of matrix i begin, at multiples of 16 bytes. A register has two
/// neighbours of a row; if `isTransposed`, of a column.
SmallVector<Value> loadMatrices(OpBuilder &builder, Location loc, Value pointer,
                                Value index, bool isTransposed);

/// A bit for each lane of a warp, all of which execute it: whether its
/// `condition` holds.
Value createBallot(OpBuilder &builder, Location loc, Value condition);

/// How many bits of an i32 are set, as an index.
Value countBits(OpBuilder &builder, Location loc, Value bits);

/// A B + C for A and B of `type`.
SmallVector<Value> multiplyMatrices(OpBuilder &builder, Location loc,
                                    ValueRange a, ValueRange b, ValueRange c,
                                    Type type);

} // namespace mlir::fsdp

#endif // FSDP_PASSES_KERNELS_CUDA_MATRIXINSTRUCTIONS_H
