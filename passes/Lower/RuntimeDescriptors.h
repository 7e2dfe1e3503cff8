//===- RuntimeDescriptors.h - Constants that the runtime reads --*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Builds the descriptors of fsdp/ABI/Descriptors.h as constant LLVM globals.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_PASSES_LOWER_RUNTIMEDESCRIPTORS_H
#define FSDP_PASSES_LOWER_RUNTIMEDESCRIPTORS_H

#include "fsdp/ABI/Descriptors.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/BuiltinOps.h"

namespace mlir::fsdp {

/// Creates globals at the start of a module.
class DescriptorBuilder {
public:
  explicit DescriptorBuilder(ModuleOp module)
      : module(module), builder(module.getBodyRegion()) {}

  /// A constant struct; returns its symbol.
  FlatSymbolRefAttr createDescriptor(const Descriptor &descriptor);
  /// A NUL-terminated text; equal ones are shared.
  FlatSymbolRefAttr createString(StringRef text);
  /// An array of addresses of globals.
  FlatSymbolRefAttr createPointerArray(ArrayRef<FlatSymbolRefAttr> symbols);
  /// An array of int64.
  FlatSymbolRefAttr createArray(ArrayRef<int64_t> values);

private:
  /// A constant of @type, an aggregate, whose elements @create makes.
  FlatSymbolRefAttr createAggregate(
      StringRef stem, Type type, int64_t count,
      llvm::function_ref<Value(int64_t, OpBuilder &, Location)> create);
  Type getType(FieldKind kind);
  Value createField(const FieldInfo &info, const Descriptor::Field *field,
                    OpBuilder &body, Location loc);
  std::string getFreshName(StringRef stem);

  ModuleOp module;
  OpBuilder builder;
  llvm::StringMap<FlatSymbolRefAttr> strings;
  unsigned count = 0;
};

} // namespace mlir::fsdp

#endif // FSDP_PASSES_LOWER_RUNTIMEDESCRIPTORS_H
