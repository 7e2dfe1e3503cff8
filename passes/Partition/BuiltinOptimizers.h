//===- BuiltinOptimizers.h - Optimizers by name -----------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_PASSES_PARTITION_BUILTINOPTIMIZERS_H
#define FSDP_PASSES_PARTITION_BUILTINOPTIMIZERS_H

#include "fsdp/Analysis/Contract/OptimizerSpec.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::fsdp {

/// `@optimizer`, detached, of what @spec says. The rate and the numbers named
/// in @runTimeScalars (of OptimizerSpec::parseRunTimeScalars) are arguments
/// with the role of a scalar and the values of @spec as defaults, the rate f32
/// and others f64; all else is constant.
func::FuncOp createOptimizer(OpBuilder &builder, Location loc,
                             const OptimizerSpec &spec,
                             ArrayRef<StringRef> runTimeScalars = {});

} // namespace mlir::fsdp

#endif // FSDP_PASSES_PARTITION_BUILTINOPTIMIZERS_H
