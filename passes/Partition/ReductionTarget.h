//===- ReductionTarget.h - Flat parameters as hooks see them ----*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_PASSES_PARTITION_REDUCTIONTARGET_H
#define FSDP_PASSES_PARTITION_REDUCTIONTARGET_H

#include "fsdp/Dialect/FSDP/IR/FSDP.h"
#include "fsdp/Dialect/FSDP/IR/ReductionHook.h"

namespace mlir::fsdp {

/// Adds the hooks that the compiler has.
void addBuiltinHooks(DialectRegistry &registry);

/// The hook of @text, which can reduce the gradients of @flat, described by
/// @target. Reports, at @flat, why there is none.
FailureOr<std::unique_ptr<ReductionHook>>
readHook(FlatParamOp flat, StringRef text, const HookTarget &target);

HookTarget getHookTarget(FlatParamOp flat, MeshOp mesh);

} // namespace mlir::fsdp

#endif // FSDP_PASSES_PARTITION_REDUCTIONTARGET_H
