//===- ProgramStates.h - The states that a program uses ---------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_ANALYSIS_STEP_PROGRAMSTATES_H
#define FSDP_ANALYSIS_STEP_PROGRAMSTATES_H

#include "fsdp/Dialect/FSDP/IR/FSDP.h"
#include "fsdp/Schedule/ArenaPurpose.h"

#include "llvm/ADT/DenseMap.h"

namespace mlir::fsdp {

/// The fsdp.state ops that @program names, looked up once: linear in the ops of
/// its module. Valid until symbols or the program's signature change.
class ProgramStates {
public:
  explicit ProgramStates(ProgramOp program);

  /// The state that an argument is, or a result becomes; null for others.
  StateOp getRead(unsigned argument) const { return read[argument]; }
  StateOp getWritten(unsigned result) const { return written[result]; }
  /// The flat parameter whose shard the argument is; null for others.
  FlatSymbolRefAttr getShard(unsigned argument) const;
  /// The flat parameter whose shard the argument is, or which it is gathered.
  FlatSymbolRefAttr getParameter(unsigned argument) const;

private:
  SmallVector<StateOp> read, written;
};

/// Checks that all states of @module are of local types and have places that do
/// not overlap in their memory: multiples of @alignment, and @border bytes
/// after each that belong to nobody.
LogicalResult checkStateLayout(ModuleOp module, int64_t alignment = 1,
                               int64_t border = 0);

/// Where the states of @module in the host's memory end, in bytes from the
/// begin of its arena, with the @border behind each; 0 without any.
int64_t getHostStateBytes(ModuleOp module, int64_t border);

/// The row of the memory report that a state's bytes belong to.
Purpose getPurpose(StateKind kind);

} // namespace mlir::fsdp

#endif // FSDP_ANALYSIS_STEP_PROGRAMSTATES_H
