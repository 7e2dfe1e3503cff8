//===- StepArguments.h - What a step takes and replaces ---------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_ANALYSIS_STEP_STEPARGUMENTS_H
#define FSDP_ANALYSIS_STEP_STEPARGUMENTS_H

#include "fsdp/Dialect/FSDP/IR/FSDP.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::fsdp {

/// The states that @step writes: (result, the argument that is its value when
/// the program begins), in the order of results.
SmallVector<std::pair<unsigned, BlockArgument>>
getReplacedArguments(ProgramOp step);

/// Whether @op gives its operand's bytes another name: no bytes move.
bool isView(Operation *op);

/// Where fsdp-plan-arena has put @value of a step, in bytes: an argument, a
/// result, or what comes into the body of fsdp.start. What is of !fsdp.host
/// lies in the host's arena, all else in the device's.
int64_t getArenaOffset(Value value);

/// The kernel of @module whose code needs most memory beside the arena, in each
/// thread that runs it; null where none needs any.
func::FuncOp getKernelWithMostScratch(ModuleOp module);
/// Bytes of that; 0 for null.
int64_t getScratchBytes(func::FuncOp kernel);

/// The value that @value is a part of or another shape of: through views, and
/// through what a transfer takes and brings.
Value getWholeValue(Value value);

/// What makes @step's loss, before it is averaged over ranks. Null where the
/// step returns none.
Operation *getLossOp(ProgramOp step);

/// The op that getLossOp() returns, after which backward begins. Null for
/// programs without a backward (ProgramTraits::hasBackward).
Operation *getForwardEnd(ProgramOp step);

/// The earlier gather in @gather's block that brings the same bytes: of the
/// same value, or of what the same kernel made of the same values. Null where
/// there is none.
AllGatherOp getEarlierGather(AllGatherOp gather);

/// The number in @op's fsdp.group, if it has one.
std::optional<int32_t> getGroup(Operation *op);

/// @op and the transfers right behind it that are to be issued with it.
SmallVector<TransferOpInterface> getGroupFrom(TransferOpInterface op);

/// Whether the memory of `value` is read after `op`, in whose block or a region
/// below it all readers are: by a reader of the value, or of a view or reshape
/// of it, that @counts (all do without it).
bool isReadAfter(Value value, Operation *op,
                 llvm::function_ref<bool(Operation *)> counts = nullptr);

/// Whether @value is a result of @op or computed, through any number of ops, of
/// one. Cost: the ops that are computed of @op.
bool dependsOn(Value value, Operation *op);

/// The axes of every communicator that the programs of @module need, each once,
/// in the order of first use: the manifest's groups.
SmallVector<ArrayAttr> getGroups(ModuleOp module);

} // namespace mlir::fsdp

#endif // FSDP_ANALYSIS_STEP_STEPARGUMENTS_H
