//===- IndexRanges.h - What integers of a step can be -----------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Ranges of integers, of scalars and of the elements of tensors, through loops,
// views and linalg bodies: what MLIR's integer range analysis says of an op,
// and what is known besides: sizes of loops, bounds of the step's inputs (every
// batch is checked against them), values of constants.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_ANALYSIS_KERNELS_INDEXRANGES_H
#define FSDP_ANALYSIS_KERNELS_INDEXRANGES_H

#include "fsdp/Dialect/FSDP/IR/FSDP.h"
#include "mlir/Interfaces/InferIntRangeInterface.h"
#include "llvm/ADT/DenseMap.h"

namespace mlir::fsdp {

class IndexRanges {
public:
  /// Of values in @step; valid until it changes.
  explicit IndexRanges(ProgramOp step) : step(step) {}

  /// What @value, or any element of it, can be. It is an integer, an index or a
  /// tensor of them.
  ConstantIntRanges get(Value value);

  /// Whether 0 <= @value < @size.
  bool isWithin(Value value, int64_t size);

private:
  std::optional<ConstantIntRanges> compute(Value value);
  std::optional<ConstantIntRanges> getOfArgument(BlockArgument arg);
  std::optional<ConstantIntRanges> getOfResult(OpResult result);

  ProgramOp step;
  llvm::DenseMap<Value, ConstantIntRanges> known;
  /// Of computations that are asked for while one asks.
  unsigned depth = 0;
};

} // namespace mlir::fsdp

#endif // FSDP_ANALYSIS_KERNELS_INDEXRANGES_H
