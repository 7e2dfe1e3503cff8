//===- JsonText.h - JSON that attributes hold as text -----------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_DIALECT_FSDP_IR_JSONTEXT_H
#define FSDP_DIALECT_FSDP_IR_JSONTEXT_H

#include "mlir/IR/Attributes.h"

namespace mlir::fsdp {

/// Whether @attr is a string that parses as a JSON object.
bool isJsonObject(Attribute attr);

} // namespace mlir::fsdp

#endif // FSDP_DIALECT_FSDP_IR_JSONTEXT_H
