//===- KernelEmitter.h - Vector code for loop kernels -----------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Emits scf loops over vectors for a kernel that KernelLoops understands. What
// is computed never depends on what else is in the kernel: elementwise results
// are rounded op by op, and sums have a fixed shape: blocks (SumBlocks.h), of
// kLanes partial sums, which a tree adds up, unless work items run over the
// lanes. So fusing differently, or on more threads, does not change bits.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_PASSES_KERNELS_CPU_KERNELEMITTER_H
#define FSDP_PASSES_KERNELS_CPU_KERNELEMITTER_H

#include "Kernels/Common/KernelValues.h"
#include "Kernels/Common/SumBlocks.h"

namespace mlir::fsdp {

class KernelEmitter : KernelValues {
public:
  /// Partial sums of a reduction along the lane.
  static constexpr int64_t kLanes = 32;

  /// Emits at `builder`'s position: items [begin, end) of the kernel, whose
  /// arguments lie in `memory` (one rank-1 memref per argument, i1 as i8) and
  /// whose temporary rows lie in `scratch` (memref<?xi8>).
  KernelEmitter(const KernelLoops &loops, OpBuilder &builder, Location loc,
                IRMapping memory, Value scratch)
      : KernelValues(loops, builder, loc, std::move(memory), scratch,
                     loops.getLane(), getVectorSize(loops)) {}

  /// Independent work items.
  int64_t getItemCount() const;
  /// Bytes of `scratch` that one thread needs.
  int64_t getScratchBytes() const {
    return fsdp::getScratchBytes(loops, isLaneOuter() ? lanes : 1);
  }
  /// Operations of one work item, roughly.
  int64_t getItemCost() const;

  void emit(Value begin, Value end);

private:
  // Work items.
  void emitItem(Value item);
  void emitLaneBlock(Value block);
  void emitLanes(Value first, int64_t count);
  void emitStages();
  void emitStage(unsigned stage);
  void emitInnerLoops(unsigned stage, unsigned loop,
                      MutableArrayRef<Value> accumulators);
  unsigned getInnerLoop(unsigned first) const;
  SumBlocks getBlocks(unsigned loop) const;
  int64_t getTerms(unsigned loop) const;
  void emitPoints(unsigned stage, MutableArrayRef<Value> accumulators);
  Value reduceLanes(Value vector, vector::CombiningKind kind);
  void finishReductions(unsigned stage, ArrayRef<Value> accumulators);
  void emitItemStores();

  /// Points computed at once along the lane.
  static int64_t getVectorSize(const KernelLoops &loops);
  int64_t getBlockVectors() const;

  /// Zeros of the current stage's accumulators that are float sums, else null.
  SmallVector<Value> sumZeros;
};

} // namespace mlir::fsdp

#endif // FSDP_PASSES_KERNELS_CPU_KERNELEMITTER_H
