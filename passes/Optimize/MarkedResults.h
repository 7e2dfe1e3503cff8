//===- MarkedResults.h - Values that a plan names on launches ---*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_PASSES_OPTIMIZE_MARKEDRESULTS_H
#define FSDP_PASSES_OPTIMIZE_MARKEDRESULTS_H

#include "fsdp/Dialect/FSDP/IR/FSDP.h"

#include "llvm/ADT/SetVector.h"

namespace mlir::fsdp {

/// Results of forward's launches, in their order, that the attribute @name
/// (numbers of results) marks. Fails, with a diagnostic, where the attribute
/// does not stand on a launch before @loss, is no such array or names a result
/// that there is not, and where @other marks the same result.
FailureOr<llvm::SetVector<Value>> getMarkedResults(Block &block,
                                                   Operation *loss,
                                                   StringRef name,
                                                   StringRef other);

} // namespace mlir::fsdp

#endif // FSDP_PASSES_OPTIMIZE_MARKEDRESULTS_H
