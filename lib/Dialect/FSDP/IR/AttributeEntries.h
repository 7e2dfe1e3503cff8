//===- AttributeEntries.h - Dictionaries that are read by name --*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_LIB_DIALECT_FSDP_IR_ATTRIBUTEENTRIES_H
#define FSDP_LIB_DIALECT_FSDP_IR_ATTRIBUTEENTRIES_H

#include "mlir/IR/Operation.h"

namespace mlir::fsdp {

/// fsdp.traced of a module: what the manifest says of what was traced.
LogicalResult verifyTraced(Operation *op, NamedAttribute attr);

/// fsdp.modules of a partitioned module; of a traced step, input_c12 says more.
LogicalResult verifyModules(Operation *op, NamedAttribute attr);

/// fsdp.notes of a partitioned module; of a traced step, input_c27 says it.
LogicalResult verifyNotes(Operation *op, NamedAttribute attr);

/// fsdp.tuning of a kernel. What values code can have, those who emit it say.
LogicalResult verifyTuning(Operation *op, NamedAttribute attr);

/// What stands on an argument or a result, @where, of a program; of traced
/// functions the contract says more (docs/input-contract.md).
LogicalResult verifyProgramAttribute(Operation *op, NamedAttribute attr,
                                     const Twine &where);

} // namespace mlir::fsdp

#endif // FSDP_LIB_DIALECT_FSDP_IR_ATTRIBUTEENTRIES_H
