//===- RuntimeDescriptors.h - Constants that the runtime reads --*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Builds the descriptors of include/fsdp-rt/abi.def as constant LLVM globals.
// The field lists are expanded from that table: a field that is renamed there
// fails to compile or is caught here by name.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_PASSES_LOWER_RUNTIMEDESCRIPTORS_H
#define FSDP_PASSES_LOWER_RUNTIMEDESCRIPTORS_H

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/BuiltinOps.h"

#include <array>
#include <variant>

namespace mlir::fsdp {

/// The kinds of abi.def.
enum class FieldKind { PTR, STR, I32, I64, F64, I64x4 };

struct FieldInfo {
  FieldKind kind;
  llvm::StringLiteral name;
};

/// The fields of descriptor `name`, in memory order; empty where there is none.
ArrayRef<FieldInfo> getDescriptorFields(StringRef name);

/// The descriptor that runtime function `name` takes; empty where there is
/// none.
StringRef getFunctionDescriptor(StringRef name);

/// Values of one descriptor. Fields that are not set are zero.
class Descriptor {
public:
  using Field = std::variant<int64_t, double, std::string,
                             std::array<int64_t, 4>, FlatSymbolRefAttr>;
  explicit Descriptor(StringRef name) : name(name) {}

  void set(StringRef field, Field value);
  StringRef getName() const { return name; }
  const Field *lookup(StringRef field) const;

private:
  std::string name;
  SmallVector<std::pair<std::string, Field>> fields;
};

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
