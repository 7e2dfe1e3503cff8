//===- KernelValues.h - Values of loop kernels ------------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Emits what a kernel that KernelLoops understands loads, computes and stores
// at one point of its loops, or at the points of one vector along its lane.
// Each target has a class of its own that derives from this one and visits the
// points.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_PASSES_KERNELS_COMMON_KERNELVALUES_H
#define FSDP_PASSES_KERNELS_COMMON_KERNELVALUES_H

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

/// How `combiner`, which KernelLoops accepts, combines scalars and vectors.
vector::CombiningKind getCombiningKind(Operation *combiner);

/// Whether result `i` of a reduction begins at the neutral element of its
/// combiner, so that the init need not be combined with what was reduced.
bool beginsAtNeutral(const KernelLoops &loops, linalg::GenericOp op,
                     unsigned i);

/// Bytes of scratch memory for all rows of KernelLoops::getScratch(), where
/// each has `lanes` elements for every inner point.
int64_t getScratchBytes(const KernelLoops &loops, int64_t lanes);

class KernelValues {
protected:
  /// Emits at `builder`'s position. The kernel's arguments lie in `memory` (one
  /// rank-1 memref per argument, i1 as i8), its temporary rows in `scratch`
  /// (memref<?xi8>; null: what would lie there is computed again). Values are
  /// vectors of `lanes` elements along loop `lane`, scalars where that is -1.
  KernelValues(const KernelLoops &loops, OpBuilder &builder, Location loc,
               IRMapping memory, Value scratch, int lane, int64_t lanes)
      : loops(loops), outer(builder), inner(builder), loc(loc),
        memory(std::move(memory)), scratchMemory(scratch), lane(lane),
        lanes(lanes), activeLanes(lanes) {}

  /// Emits `body` by `inner` at the position of `outer`, which goes on after
  /// it. What `outer` emits meanwhile, values that are the same at all inner
  /// points, comes before.
  void emitInner(llvm::function_ref<void()> body);
  void storeResults(ArrayRef<OpResult> results, bool atInner);
  /// Keeps those results of the current point that stage `stage` leaves for
  /// later ones.
  void storeScratch(unsigned stage);
  /// What a reduction begins with in the original program, at this work item.
  Value getInit(linalg::GenericOp op, unsigned i);
  /// Applies `op` to the current point(s) and its partial results.
  void accumulate(linalg::GenericOp op, MutableArrayRef<Value> partials);

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
  LaneValue toVector(LaneValue value, OpBuilder &builder);

  // Memory.
  Value getMemory(Value source, OpBuilder &builder);
  Value getAddress(const KernelAccess &access, OpBuilder &builder);
  LaneValue load(const KernelAccess &access, Type type, bool atInner);
  LaneValue loadAt(Value base, Value address, int64_t laneStride, Type type,
                   OpBuilder &builder, llvm::MaybeAlign alignment = {});
  void store(const KernelAccess &access, LaneValue value, OpBuilder &builder);
  void storeAt(Value base, Value address, int64_t laneStride, LaneValue value,
               OpBuilder &builder, llvm::MaybeAlign alignment = {});
  llvm::MaybeAlign getVectorAlignment(Type element) const;
  Value getScratchRow(OpResult result, OpBuilder &builder);
  Value getScratchAddress(OpBuilder &builder);
  int64_t getRowElements() const;

  // Small pieces.
  VectorType getVectorType(Type type) const;
  Value getIndexConstant(int64_t value, OpBuilder &builder);
  Value getMask(OpBuilder &builder);
  int64_t getLaneStride(const KernelAccess &access) const;
  /// Points along the lane.
  int64_t getLaneSize() const;
  /// Whether values lie along a lane that work items run over.
  bool isLaneOuter() const { return lane >= 0 && loops.isLaneOuter(); }

  const KernelLoops &loops;
  /// Where values that are the same at all inner points are computed, and where
  /// the others are.
  OpBuilder outer, inner;
  Location loc;
  IRMapping memory;
  Value scratchMemory;
  /// Functions of the kernel's bodies that may be approximated.
  llvm::DenseSet<Operation *> approximated;
  int lane;
  /// What the address of a vector in memory is a multiple of, in bytes, unless
  /// the vector is smaller; 0: of an element, as the target assumes. Vectors of
  /// a lookup are where its indices say.
  int64_t vectorAlignment = 0;

  /// Current point: an index per loop; the lane's is that of its first lane.
  SmallVector<Value> point;
  int64_t lanes, activeLanes;
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

#endif // FSDP_PASSES_KERNELS_COMMON_KERNELVALUES_H
