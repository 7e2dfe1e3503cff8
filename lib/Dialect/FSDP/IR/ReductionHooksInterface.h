//===- ReductionHooksInterface.h - Hooks as the dialect's ---------*- C++
//-*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_LIB_DIALECT_FSDP_IR_REDUCTIONHOOKSINTERFACE_H
#define FSDP_LIB_DIALECT_FSDP_IR_REDUCTIONHOOKSINTERFACE_H

#include "fsdp/Dialect/FSDP/IR/ReductionHook.h"

namespace mlir::fsdp {

/// The interface of @dialect, without hooks.
std::unique_ptr<DialectInterface> createReductionHooks(Dialect *dialect);

} // namespace mlir::fsdp

#endif // FSDP_LIB_DIALECT_FSDP_IR_REDUCTIONHOOKSINTERFACE_H
