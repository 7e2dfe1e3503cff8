//===- AttributeNames.h - Attributes on ops of other dialects ---*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_DIALECT_FSDP_IR_ATTRIBUTENAMES_H
#define FSDP_DIALECT_FSDP_IR_ATTRIBUTENAMES_H

#include "llvm/ADT/StringRef.h"

namespace mlir::fsdp::names {
#define FSDP_ATTRIBUTE(constant, name, places)                                 \
  constexpr llvm::StringLiteral constant = name;
#include "fsdp/Dialect/FSDP/IR/AttributeNames.def"
} // namespace mlir::fsdp::names

#endif // FSDP_DIALECT_FSDP_IR_ATTRIBUTENAMES_H
