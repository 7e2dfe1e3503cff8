//===- KernelEmitter.h - Vector code for loop kernels -----------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Emits scf loops over vectors for a kernel that KernelLoops understands. What
// is computed never depends on what else is in the kernel: elementwise results
// are rounded op by op, and sums have a fixed shape (kLanes partial sums, then
// a tree; or one after the other, where work items run over the lanes). So
// fusing differently, or on more threads, does not change bits.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_PASSES_KERNELS_CPU_KERNELEMITTER_H
#define FSDP_PASSES_KERNELS_CPU_KERNELEMITTER_H

#include "fsdp/Analysis/Kernels/KernelLoops.h"

#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/IRMapping.h"

namespace mlir::fsdp {

/// A value at the current point(s): one for all lanes, or one per lane.
struct LaneValue {
  Value value;
  bool isVector = false;
  /// For integers: lane i has value + i.
  bool isRamp = false;
};

class KernelEmitter {
public:
  /// Partial sums of a reduction along the lane.
  static constexpr int64_t kLanes = 32;

  /// Emits at `builder`'s position: items [begin, end) of the kernel, whose
  /// arguments lie in `memory` (one rank-1 memref per argument, i1 as i8) and
  /// whose temporary rows lie in `scratch` (memref<?xi8>).
  KernelEmitter(const KernelLoops &loops, OpBuilder &builder, Location loc,
                IRMapping memory, Value scratch)
      : loops(loops), outer(builder), inner(builder), loc(loc),
        memory(std::move(memory)), scratchMemory(scratch) {}

  /// Independent work items.
  int64_t getItemCount() const;
  /// Bytes of `scratch` that one thread needs.
  int64_t getScratchBytes() const;
  /// Operations of one work item, roughly.
  int64_t getItemCost() const;

  void emit(Value begin, Value end);

private:
  // Work items.
  void emitItem(Value item);
  void emitLaneBlock(Value block);
  void emitLanes(Value lane, int64_t count);
  void emitStages();
  void emitStage(unsigned stage);
  void emitInnerLoops(unsigned stage, unsigned loop,
                      MutableArrayRef<Value> accumulators);
  void emitPoints(unsigned stage, MutableArrayRef<Value> accumulators);
  void finishReductions(unsigned stage, ArrayRef<Value> accumulators);
  void emitItemStores();
  void storeResults(ArrayRef<OpResult> results, bool atInner);

  // Values.
  LaneValue getOperand(linalg::GenericOp op, OpOperand &operand, bool atInner);
  LaneValue getResult(OpResult result, bool atInner);
  SmallVector<LaneValue> evaluateBody(linalg::GenericOp op,
                                      ArrayRef<LaneValue> args, bool atInner);
  using LaneValues = llvm::DenseMap<Value, LaneValue>;
  LaneValue evaluateOp(Operation &op, linalg::GenericOp owner,
                       LaneValues &values, OpBuilder &builder);
  LaneValue evaluateIndex(linalg::IndexOp op, linalg::GenericOp owner,
                          OpBuilder &builder);
  LaneValue evaluateLookup(tensor::ExtractOp op, LaneValues &values,
                           OpBuilder &builder);
  Value getScalar(Value value, OpBuilder &builder);
  Value getInit(linalg::GenericOp op, unsigned i);
  LaneValue toVector(LaneValue value, OpBuilder &builder);

  // Memory.
  Value getMemory(Value source, OpBuilder &builder);
  Value getAddress(const KernelAccess &access, OpBuilder &builder);
  LaneValue load(const KernelAccess &access, Type type, bool atInner);
  LaneValue loadAt(Value base, Value address, int64_t laneStride, Type type,
                   OpBuilder &builder);
  void store(const KernelAccess &access, LaneValue value, OpBuilder &builder);
  void storeAt(Value base, Value address, int64_t laneStride, LaneValue value,
               OpBuilder &builder);
  Value getScratchRow(OpResult result, OpBuilder &builder);
  Value getScratchAddress(OpBuilder &builder);
  int64_t getRowElements() const;
  int64_t getRowBytes(OpResult result) const;

  // Small pieces.
  VectorType getVectorType(Type type) const;
  Value getIndexConstant(int64_t value, OpBuilder &builder);
  Value getMask(OpBuilder &builder);
  int64_t getLaneStride(const KernelAccess &access) const;
  int64_t getLaneSize() const;
  int64_t getVectorSize() const;
  int64_t getBlockVectors() const;

  const KernelLoops &loops;
  /// Where values that are the same at all inner points are computed, and where
  /// the others are.
  OpBuilder outer, inner;
  Location loc;
  IRMapping memory;
  Value scratchMemory;

  /// Current point: an index per loop; the lane's is that of its first lane.
  SmallVector<Value> point;
  int64_t lanes = 1;
  int64_t activeLanes = 1;
  /// Values at the current work item and at the current inner points, and what
  /// has been loaded there.
  struct Known {
    llvm::DenseMap<OpResult, LaneValue> results;
    SmallVector<std::pair<KernelAccess, LaneValue>> loads;
    void clear() {
      results.clear();
      loads.clear();
    }
  };
  Known outerKnown, innerKnown;
  unsigned currentStage = 0;
};

} // namespace mlir::fsdp

#endif // FSDP_PASSES_KERNELS_CPU_KERNELEMITTER_H
