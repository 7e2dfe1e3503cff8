//===- BodyContract.h - What the ops of L0 may be ---------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_ANALYSIS_CONTRACT_BODYCONTRACT_H
#define FSDP_ANALYSIS_CONTRACT_BODYCONTRACT_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::fsdp {

/// Checks the ops of a traced function, without calls (input_c13, input_c15,
/// input_c19, input_c20); linear in them.
LogicalResult verifyStepBody(func::FuncOp func);

/// The elements of a resource of a file; null where they are not those of its
/// type.
DenseElementsAttr readResource(DenseResourceElementsAttr resource);

/// Checks the ops of an optimizer that has been read (optimizer_c7).
LogicalResult verifyOptimizerBody(func::FuncOp func);

} // namespace mlir::fsdp

#endif // FSDP_ANALYSIS_CONTRACT_BODYCONTRACT_H
