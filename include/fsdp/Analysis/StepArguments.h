//===- StepArguments.h - What a step takes and replaces ---------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_ANALYSIS_STEPARGUMENTS_H
#define FSDP_ANALYSIS_STEPARGUMENTS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::fsdp {

/// Results of @step that replace one of its arguments for the next step: new
/// shards, states and buffers. (result, argument), in the order of results.
SmallVector<std::pair<unsigned, BlockArgument>>
getReplacedArguments(func::FuncOp step);

/// Whether @op gives its operand's bytes another name: no bytes move.
bool isView(Operation *op);

/// Where fsdp-plan-arena has put @value of a step, in bytes: an argument, a
/// result, or what comes into the body of fsdp.start.
int64_t getArenaOffset(Value value);

/// Whether the memory of `value` is read behind `op`: by a reader of the value,
/// or of a view or reshape of it.
bool isReadAfter(Value value, Operation *op);

/// The axes of every communicator that @step needs, each once, in the order of
/// first use: the manifest's groups.
SmallVector<ArrayAttr> getGroups(func::FuncOp step);

} // namespace mlir::fsdp

#endif // FSDP_ANALYSIS_STEPARGUMENTS_H
