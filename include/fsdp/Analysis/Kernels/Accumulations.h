//===- Accumulations.h - Where a step adds up narrow floats -----*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// An accumulation is a cycle of values: what an iteration computes enters the
// next one. A value of a narrow float type (of fewer bits than f32) on such a
// cycle is rounded once an iteration, and the error grows with the number of
// iterations. AccumulatorTypes finds these values, in whatever form the cycle
// is written:
//
//   - the reduction loops of a structured op (linalg.generic, linalg.reduce,
//     products, convolutions, sums over windows): output element -> body ->
//     output element;
//   - what a loop carries (scf.for, scf.while, scf.parallel with scf.reduce),
//     as a number or in the elements of a tensor, through nested loops and
//     branches: sums, products, scans, scatters.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_ANALYSIS_KERNELS_ACCUMULATIONS_H
#define FSDP_ANALYSIS_KERNELS_ACCUMULATIONS_H

#include "mlir/IR/Operation.h"
#include "mlir/IR/Value.h"
#include "llvm/ADT/MapVector.h"

namespace mlir::fsdp {

/// Whether @type, or its elements, are floats of fewer than 32 bits.
bool isNarrowFloat(Type type);

/// Whether @op casts floats to a wider or narrower type.
bool isFloatCast(Operation *op);

/// @type with the elements @element.
Type withElementType(Type type, Type element);

/// The values in one op that have to be of f32 for its accumulations to be.
class AccumulatorTypes {
public:
  /// Looks at @root and what is nested in it: finds the cycles of its value
  /// flow once (Tarjan), then walks its ops until a walk adds no value. One
  /// walk adds a whole chain of ops that only each other and an accumulation
  /// read.
  explicit AccumulatorTypes(Operation *root);

  /// Whether nothing accumulates in a narrow float.
  bool empty() const { return wide.empty(); }
  bool isWide(Value value) const { return wide.contains(value); }
  /// The wide values with the narrow types that the IR gives them.
  const llvm::MapVector<Value, Type> &getWide() const { return wide; }

  /// Whether @use, of a narrow value as the IR has it, reads a wide one: its
  /// owner computes, moves or carries a wide value.
  bool readsWide(OpOperand &use) const;

private:
  void add(Value value);
  void addCycles();
  bool addTied(Operation *op);
  bool addMoved(Operation *op);
  bool addTerm(Operation *op);

  Operation *root;
  llvm::MapVector<Value, Type> wide;
};

} // namespace mlir::fsdp

#endif // FSDP_ANALYSIS_KERNELS_ACCUMULATIONS_H
