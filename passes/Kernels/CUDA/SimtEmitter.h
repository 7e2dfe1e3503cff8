//===- SimtEmitter.h - Code with a value per thread -------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Emits the body of a gpu.func for a kernel that KernelLoops understands.
// Either a thread computes a work item (one point of all outer loops) and runs
// over the inner points, or a block does: inner point p belongs to thread p mod
// T, which alone writes it and reads it again. Partial results of a block's
// threads meet in a butterfly of shuffles within each warp, then in one over
// the warps' results, which lie in shared memory. So the order of every sum is
// a function of the kernel's shape.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_PASSES_KERNELS_CUDA_SIMTEMITTER_H
#define FSDP_PASSES_KERNELS_CUDA_SIMTEMITTER_H

#include "Kernels/Common/KernelValues.h"

namespace mlir::fsdp {

/// How the work items of a kernel are laid over threads.
struct SimtShape {
  /// Work items.
  int64_t items;
  /// Whether a block computes an item, rather than a thread.
  bool isBlockPerItem;
  /// Blocks, and threads of each.
  int64_t grid, block;
  /// Bytes of dynamic shared memory of a block, for rows of scratch; 0 where
  /// they do not fit, and their values are computed again.
  int64_t shared;
};

/// Decides from the sizes of loops alone.
SimtShape chooseSimtShape(const KernelLoops &loops);

/// Elements of the slots in which results of warps meet: one per warp of a
/// block and result that it reduces.
int64_t getSlotCount(const KernelLoops &loops, const SimtShape &shape);

class SimtEmitter : KernelValues {
public:
  /// Emits at `builder`'s position, in a gpu.func whose arguments are in
  /// `memory` as KernelValues wants them, in global memory. `slots` is a
  /// memref of getSlotCount() i64 in shared memory, null where that is 0;
  /// `scratch` is dynamic shared memory, or null.
  SimtEmitter(const KernelLoops &loops, const SimtShape &shape,
              OpBuilder &builder, Location loc, IRMapping memory, Value slots,
              Value scratch)
      : KernelValues(loops, builder, loc, std::move(memory), scratch,
                     /*lane=*/-1, /*lanes=*/1),
        shape(shape), slots(slots) {}

  void emit();

private:
  void emitThreadItem();
  void emitBlockItem();
  void setOuterPoint(Value item);
  void emitStage(unsigned stage);
  void emitSerialLoops(unsigned stage, unsigned loop,
                       MutableArrayRef<Value> partials);
  void emitThreadPoints(unsigned stage, MutableArrayRef<Value> partials);
  void emitPoint(unsigned stage, MutableArrayRef<Value> partials);
  SmallVector<Value> getFirstPartials(unsigned stage);
  void finishReductions(unsigned stage, ArrayRef<Value> partials);

  /// The loops of one kind, those of the lane last: it varies fastest.
  SmallVector<unsigned> getLoopOrder(bool isInner) const;
  /// Splits `number` into indices of `order`'s loops.
  void setPoint(ArrayRef<unsigned> order, Value number, OpBuilder &builder);

  const SimtShape &shape;
  Value slots;
  /// Of block items.
  Value thread;
  int64_t usedSlots = 0;
};

} // namespace mlir::fsdp

#endif // FSDP_PASSES_KERNELS_CUDA_SIMTEMITTER_H
