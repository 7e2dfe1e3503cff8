//===- SimtEmitter.h - Code with a value per thread -------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Emits the body of a gpu.func for a kernel that KernelLoops understands. A
// work item is one point of all outer loops. One thread computes it and runs
// over the inner points, or several threads of a block do: inner point p
// belongs to thread p mod T, which alone writes it and reads it again. Then
// partial results meet: of neighbouring threads in a butterfly of shuffles, and
// those of warps in shared memory. So the order of every sum is a function of
// the kernel's shape.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_PASSES_KERNELS_CUDA_SIMTEMITTER_H
#define FSDP_PASSES_KERNELS_CUDA_SIMTEMITTER_H

#include "Kernels/Common/SumBlocks.h"
#include "SimtValues.h"

namespace mlir::fsdp {

/// How the work items of a kernel are laid over threads.
struct SimtShape {
  /// Neighbouring points of the lane that a thread computes together: their
  /// elements are loaded and stored by instructions of up to 16 bytes. Where
  /// items run over the lane, so many make one item here; else the last ones of
  /// a row may be fewer.
  int64_t lanes;
  int64_t items;
  /// Items of a block, and threads of an item: powers of two.
  int64_t itemsPerBlock, threadsPerItem;
  /// Whether neighbouring threads compute neighbouring items, rather than
  /// neighbouring points of one.
  bool areColumns;
  /// Bytes of dynamic shared memory of a block, for rows of scratch; 0 where
  /// they do not fit, and their values are computed again.
  int64_t shared;

  int64_t getBlock() const { return itemsPerBlock * threadsPerItem; }
  int64_t getGrid() const { return llvm::divideCeil(items, itemsPerBlock); }
};

/// Threads of kernels that reduce, at most: of a row, and of a block of
/// columns, where 0 leaves them to the sizes of loops.
struct SimtThreads {
  int64_t row, columns;

  /// Without a table.
  static SimtThreads getDefault();
};

/// Decides from the sizes of loops alone.
SimtShape
chooseSimtShape(const KernelLoops &loops,
                const SimtThreads &threads = SimtThreads::getDefault());

/// Elements of the slots in which partial results meet: of each result that is
/// reduced one per warp of an item, or one per thread of columns.
int64_t getSlotCount(const KernelLoops &loops, const SimtShape &shape);

class SimtEmitter : SimtValues {
public:
  /// Emits at `builder`'s position, in a gpu.func whose arguments are in
  /// `memory` as KernelValues wants them, in global memory. `slots` is a
  /// memref of getSlotCount() i64 in shared memory, null where that is 0;
  /// `scratch` is dynamic shared memory, or null. What getVectorOperands names
  /// begins at a multiple of kVectorBytes. `functions` of the kernel may be
  /// approximated.
  SimtEmitter(const KernelLoops &loops, const SimtShape &shape,
              OpBuilder &builder, Location loc, IRMapping memory, Value slots,
              Value scratch, llvm::DenseSet<Operation *> functions);

  void emit();

private:
  void setItem();
  void emitStages();
  void emitItemStores();
  /// Stores results of the current point, unless the thread has no item.
  void storePoint(ArrayRef<OpResult> results);
  void emitStage(unsigned stage);
  unsigned getInnerLoop(unsigned first) const;
  SumBlocks getBlocks(int64_t iterations, unsigned next) const;
  void emitSerialLoops(unsigned stage, unsigned loop,
                       MutableArrayRef<Value> partials);
  void emitThreadPoints(unsigned stage, MutableArrayRef<Value> partials);
  void emitRest(unsigned stage, MutableArrayRef<Value> partials);
  void emitPoint(unsigned stage, MutableArrayRef<Value> partials);
  SmallVector<Value> getFirstPartials(unsigned stage);
  void finishReductions(unsigned stage, ArrayRef<Value> partials);
  Value reduceInItem(Value value, vector::CombiningKind kind);
  Value reduceColumn(Value value, vector::CombiningKind kind);

  const SimtShape &shape;
  Value slots;
  /// The thread's number in its block, and among those of its item.
  Value thread, threadInItem;
  /// Whether the thread has an item of its own; null where all have.
  Value isItem;
  int64_t usedSlots = 0;
  /// Zeros of the current stage's partial results that are float sums, else
  /// null.
  SmallVector<Value> sumZeros;
};

} // namespace mlir::fsdp

#endif // FSDP_PASSES_KERNELS_CUDA_SIMTEMITTER_H
