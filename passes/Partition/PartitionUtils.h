//===- PartitionUtils.h - Building small computations -----------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_PASSES_PARTITION_PARTITIONUTILS_H
#define FSDP_PASSES_PARTITION_PARTITIONUTILS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"

namespace mlir::fsdp {

/// An elementwise linalg.generic over `inputs`, which have the shape of
/// `resultType` or rank 0.
Value createElementwise(
    OpBuilder &builder, Location loc, RankedTensorType resultType,
    ValueRange inputs,
    llvm::function_ref<Value(OpBuilder &, Location, ValueRange)> body);

/// `value` with the float elements of `type`; `value` itself where it has them.
Value createCast(OpBuilder &builder, Location loc, Value value,
                 RankedTensorType type);

/// A scalar float constant as a tensor of rank 0.
Value createScalar(OpBuilder &builder, Location loc, Type type, double value);

/// The results of a step's function that carry attribute `name`.
SmallVector<unsigned> getResultsWith(func::FuncOp func, StringRef name);

/// Removes results of a function of one block.
void eraseResults(func::FuncOp func, ArrayRef<unsigned> results);

/// Returns `value` too, with one attribute.
void appendResult(func::FuncOp func, Value value, StringRef attrName,
                  Attribute attr);

} // namespace mlir::fsdp

#endif // FSDP_PASSES_PARTITION_PARTITIONUTILS_H
