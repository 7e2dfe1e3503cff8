//===- ModuleContract.h - What the module of L0 may hold --------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_ANALYSIS_CONTRACT_MODULECONTRACT_H
#define FSDP_ANALYSIS_CONTRACT_MODULECONTRACT_H

#include "mlir/IR/BuiltinOps.h"

namespace mlir::fsdp {

/// Checks what the module of a step, or of an optimizer alone, holds:
/// functions, whom they call, attributes (input_c16, input_c17, input_c18);
/// linear in them.
LogicalResult verifyInputModule(ModuleOp module);

} // namespace mlir::fsdp

#endif // FSDP_ANALYSIS_CONTRACT_MODULECONTRACT_H
