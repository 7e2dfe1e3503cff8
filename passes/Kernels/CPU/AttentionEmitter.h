//===- AttentionEmitter.h - Code for a tile of scores -----------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Emits what include/fsdp-rt/cpu-attention.h calls a tile function: scf loops
// over rows and vectors of keys, with the bodies of the op at each point.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_PASSES_KERNELS_CPU_ATTENTIONEMITTER_H
#define FSDP_PASSES_KERNELS_CPU_ATTENTIONEMITTER_H

#include "fsdp/Dialect/FSDP/IR/FSDP.h"

#include "mlir/IR/Builders.h"

namespace mlir::fsdp {

/// Sizes of a tile.
struct AttentionTile {
  int64_t queries, keys;
};
AttentionTile getAttentionTile(AttentionShapeAttr shape);

/// Bytes of scratch memory per thread.
int64_t getAttentionScratch(AttentionShapeAttr shape, bool backward);

/// Types of the tile function's operands for `op`, an AttentionOp or an
/// AttentionBackwardOp, whose captured tensors have `capturedTypes` (rank 1).
SmallVector<Type> getTileOperandTypes(Operation *op,
                                      ArrayRef<Type> capturedTypes);

/// Emits rows [begin, end) at `builder`'s position; `operands` are of the types
/// above.
void emitAttentionTile(Operation *op, OpBuilder &builder, Value begin,
                       Value end, ValueRange operands);

} // namespace mlir::fsdp

#endif // FSDP_PASSES_KERNELS_CPU_ATTENTIONEMITTER_H
