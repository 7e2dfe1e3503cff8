//===- ComputeOps.h - What kinds of work a step is made of ------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_ANALYSIS_KERNELS_COMPUTEOPS_H
#define FSDP_ANALYSIS_KERNELS_COMPUTEOPS_H

#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/IR/Operation.h"

namespace mlir::fsdp {

/// How an op takes part in kernels.
enum class ComputeKind {
  /// Reshape or slice: memory of its operand, no work.
  View,
  /// Constants, empty tensors, fills with a constant: made where they are read.
  Constant,
  /// Work on scalars outside of any loop: repeated where it is read.
  Scalar,
  /// A linalg.generic whose loops are all parallel and whose body is a plain
  /// expression of elements at projected positions.
  Elementwise,
  /// Like Elementwise, but reducing over some loops, each result with one
  /// combiner of its own.
  Reduction,
  /// A sum of products of two operands: a (batched) matrix product.
  Contraction,
  /// Anything else that only computes: a kernel of its own.
  Opaque,
  /// Not part of any kernel: collectives, views and packs of flat parameters,
  /// checks, the terminator.
  Boundary
};

/// The kind of a top-level op of a step at L2. Elementwise and Reduction are
/// found in linalg.generic only (fsdp-normalize-compute makes them).
ComputeKind getComputeKind(Operation *op);

/// Whether that is @op's kind, without asking what else it could be.
bool isBoundary(Operation *op);
bool isContraction(Operation *op);

/// Whether @value is what a gather brought, as it is, or a view of it.
bool isGathered(Value value);

/// Whether @type is of tensors of static shape that are empty.
bool hasNoElements(Type type);

/// Whether a loop of @op, on tensors of static shape, has no iterations.
bool hasEmptyLoop(linalg::LinalgOp op);

/// Elementwise or Reduction.
bool isLoopOp(Operation *op);

/// Elementwise, and reads of each operand nothing but the element at its point:
/// no lookup (tensor.extract).
bool isPointwise(linalg::GenericOp op);

/// The op that combines result `i` of a Reduction with what was reduced so far.
Operation *getCombiner(linalg::GenericOp op, unsigned i);

/// The constant that a tensor is filled with; null where it is none.
TypedAttr getSplatConstant(Value value);

/// Rough cost of an op's body per element, in simple arithmetic operations.
int64_t getBodyCost(linalg::GenericOp op);

} // namespace mlir::fsdp

#endif // FSDP_ANALYSIS_KERNELS_COMPUTEOPS_H
