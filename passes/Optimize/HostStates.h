//===- HostStates.h - States that move to the host's memory -----*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_PASSES_OPTIMIZE_HOSTSTATES_H
#define FSDP_PASSES_OPTIMIZE_HOSTSTATES_H

#include "fsdp/Dialect/FSDP/IR/FSDP.h"

#include "mlir/IR/BuiltinOps.h"

namespace mlir::fsdp {

/// Ops of a program's body that read one copy of a state, in their order.
using Readers = SmallVector<Operation *>;

/// Which readers of a state, of which it is given all, have which copies.
using ChooseCopies = llvm::function_ref<SmallVector<Readers>(
    ProgramOp program, BlockArgument state, Readers all)>;

/// Moves @states to the host's memory, but those that are there: a program
/// copies one to the device in front of the first reader of each copy, and what
/// it makes of it back right after the op that does. Sets @isChanged where any
/// was on the device. Reports states that are no local tensors, and programs
/// that return for one what they do not compute of it
/// (offload_optimizer_c2 and _c3).
LogicalResult moveToHost(ModuleOp module, ArrayRef<StateOp> states,
                         ChooseCopies chooseCopies, bool &isChanged);

/// Whether @state, of a flat parameter, is in the part of that one's states
/// that `fsdp.flat_param` keeps on the host, which is @part or all; where it
/// says nothing, @isUsual.
bool isOffloaded(StateOp state, HostPart part, bool isUsual);

} // namespace mlir::fsdp

#endif // FSDP_PASSES_OPTIMIZE_HOSTSTATES_H
