//===- MarkedResults.h - Values that a plan names on launches ---*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_PASSES_OPTIMIZE_MARKEDRESULTS_H
#define FSDP_PASSES_OPTIMIZE_MARKEDRESULTS_H

#include "fsdp/Dialect/FSDP/IR/FSDP.h"

#include "mlir/IR/IRMapping.h"

#include "llvm/ADT/SetVector.h"

namespace mlir::fsdp {

/// Results of @op that the attribute @name (numbers of results, as the dialect
/// verifies) marks; none without it.
SmallVector<Value> getMarkedResults(Operation *op, StringRef name);

/// Those of forward's launches, in their order. Fails, with a diagnostic, where
/// the attribute stands behind @loss.
FailureOr<llvm::SetVector<Value>>
getMarkedResults(Block &block, Operation *loss, StringRef name);

/// @value, a view of something that @views maps, made of what it maps that to.
/// Clones where @builder stands; @views remembers them.
Value cloneViews(Value value, OpBuilder &builder, IRMapping &views);

} // namespace mlir::fsdp

#endif // FSDP_PASSES_OPTIMIZE_MARKEDRESULTS_H
