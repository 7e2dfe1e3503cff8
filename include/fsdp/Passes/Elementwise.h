//===- Elementwise.h - Building elementwise ops -----------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_PASSES_ELEMENTWISE_H
#define FSDP_PASSES_ELEMENTWISE_H

#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"

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

} // namespace mlir::fsdp

#endif // FSDP_PASSES_ELEMENTWISE_H
