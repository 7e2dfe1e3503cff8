//===- ReplaceInside.h - Another value for one reader -----------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_PASSES_REPLACEINSIDE_H
#define FSDP_PASSES_REPLACEINSIDE_H

#include "mlir/IR/Operation.h"

namespace mlir::fsdp {

/// Replaces `from` by `to` in `user`, its regions included.
void replaceInside(Operation *user, Value from, Value to);

} // namespace mlir::fsdp

#endif // FSDP_PASSES_REPLACEINSIDE_H
