//===- PartitionUtils.h - Arguments and results of programs -----*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_PASSES_PARTITION_PARTITIONUTILS_H
#define FSDP_PASSES_PARTITION_PARTITIONUTILS_H

#include "fsdp/Analysis/Contract/InputContract.h"
#include "fsdp/Dialect/FSDP/IR/FSDP.h"
#include "fsdp/Passes/Elementwise.h"

#include "mlir/IR/Builders.h"

namespace mlir::fsdp {

/// A scalar float constant as a tensor of rank 0.
Value createScalar(OpBuilder &builder, Location loc, Type type, double value);

/// |@number| < infinity, of a float.
Value createIsFinite(OpBuilder &builder, Location loc, Value number);

/// @updated where |@norm|, of rank 0, is less than infinity, else @old: a
/// selection, since zero times what is not finite is not zero.
Value selectIfFinite(OpBuilder &builder, Location loc, Value norm,
                     Value updated, Value old);

/// The results of a program that carry attribute `name`.
SmallVector<unsigned> getResultsWith(ProgramOp program, StringRef name);

/// Removes results of a program.
void eraseResults(ProgramOp program, ArrayRef<unsigned> results);

/// Returns `value` in the place of what result `index` was.
void replaceResult(ProgramOp program, unsigned index, Value value);

/// Returns `value` too, with one attribute.
void appendResult(ProgramOp program, Value value, StringRef attrName,
                  Attribute attr);

/// Adds an argument that is the value of `state` when the program begins.
BlockArgument addStateArgument(ProgramOp program, StateOp state);

/// Adds an argument that the caller of the program gives; `init` is its
/// default, null for none.
BlockArgument addScalarArgument(ProgramOp program, StringAttr name, Type type,
                                Attribute init);
/// One of the compiler's, with the default of its table.
BlockArgument addScalarArgument(ProgramOp program,
                                const scalars::Traits &scalar, Type type);

} // namespace mlir::fsdp

#endif // FSDP_PASSES_PARTITION_PARTITIONUTILS_H
