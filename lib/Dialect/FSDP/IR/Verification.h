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

/// The op of class `SymbolOp` that `name` stands for; otherwise an error at
/// `op` that calls it `what`, with a note at what has that name instead.
template <typename SymbolOp>
FailureOr<SymbolOp> lookupSymbol(Operation *op, FlatSymbolRefAttr name,
                                 SymbolTableCollection &symbolTable,
                                 StringRef what) {
  Operation *symbol = symbolTable.lookupNearestSymbolFrom(op, name);
  if (auto found = dyn_cast_or_null<SymbolOp>(symbol))
    return found;
  InFlightDiagnostic diag = op->emitOpError("expected ")
                            << what << " named " << name
                            << " in the module, got ";
  if (!symbol)
    return diag << "none";
  diag << symbol->getName();
  diag.attachNote(symbol->getLoc()) << "it is here";
  return diag;
}

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
