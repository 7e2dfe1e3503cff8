//===- Verification.h - Checks that several ops share -----------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_LIB_DIALECT_FSDP_IR_VERIFICATION_H
#define FSDP_LIB_DIALECT_FSDP_IR_VERIFICATION_H

#include "fsdp/Dialect/FSDP/IR/FSDP.h"

namespace mlir::fsdp {

/// The mesh of that name, or an error at `op`.
FailureOr<MeshOp> lookupMesh(Operation *op, FlatSymbolRefAttr name,
                             SymbolTableCollection &symbolTable);

/// The flat parameter of that name, or an error at `op`.
FailureOr<FlatParamOp> lookupFlatParam(Operation *op, FlatSymbolRefAttr name,
                                       SymbolTableCollection &symbolTable);

/// `axes` are axes of `mesh`, in its order, none twice.
LogicalResult verifyAxes(Operation *op, MeshOp mesh, ArrayAttr axes);

} // namespace mlir::fsdp

#endif // FSDP_LIB_DIALECT_FSDP_IR_VERIFICATION_H
