//===- StepStructure.h - Phases and parameter-only values -------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A step is one block. What an op reads inside its regions counts as read by
// the op: an embedding lookup captures its table.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_ANALYSIS_STEP_STEPSTRUCTURE_H
#define FSDP_ANALYSIS_STEP_STEPSTRUCTURE_H

#include "fsdp/Dialect/FSDP/IR/FSDP.h"

#include "mlir/IR/Block.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Operation.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"

namespace mlir::fsdp {

/// The module's program of kind train; null where it has none.
ProgramOp getTrainProgram(ModuleOp module);

/// Reports the first transfer of @step that is on a queue: what plans or orders
/// a step takes one that has no order yet.
LogicalResult expectUnscheduled(ProgramOp step);

/// Reports the first op of @step whose plan attribute waits for the pass that
/// applies it: what orders, checks or lowers a step does not look at it.
LogicalResult expectAppliedPlan(ProgramOp step);

/// Values from outside `op` that it or its regions read, each once, in order.
SmallVector<Value> getReadValues(Operation *op);

/// The ops of `block` that read `value` directly or inside a region, each once,
/// in no particular order.
SmallVector<Operation *> getReaders(Value value, Block *block);

/// Which ops of a step belong to the forward pass: those that the loss or a
/// buffer update depends on, and checks of what they compute. Linear in ops.
class StepPhases {
public:
  StepPhases(Block *block, ArrayRef<Value> forwardRoots);
  bool isForward(Operation *op) const { return forward.contains(op); }

private:
  llvm::DenseSet<Operation *> forward;
};

/// The values of `block` that depend on `sources` and on nothing else but
/// constants. Ops with side effects are never among their producers, nor are
/// reduced gradients and averaged counts: those depend on other ranks. Costs
/// time in the number of their readers, not in the size of the block.
class DerivedValues {
public:
  DerivedValues(Block *block, ValueRange sources);
  /// True for the sources and for what is computed from them alone.
  bool contains(Value value) const { return derived.contains(value); }
  /// All of them, sources first; a value comes after one it is computed from.
  ArrayRef<Value> getValues() const { return values; }

private:
  bool isConstant(Value value);

  SmallVector<Value> values;
  llvm::DenseSet<Value> derived;
  llvm::DenseMap<Operation *, bool> constants;
};

/// Ops without operands that make the same value anywhere: constants, empty
/// tensors, fills with a constant.
bool isConstantValue(Operation *op);

/// Ops that only look at their operand differently (reshape, slice, transpose,
/// broadcast, cast): as cheap to repeat as to keep.
bool isViewOrCast(Operation *op);

} // namespace mlir::fsdp

#endif // FSDP_ANALYSIS_STEP_STEPSTRUCTURE_H
