//===- Descriptors.h - What runtime functions are called with ---*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The descriptors of include/fsdp-rt/abi.def. The field lists are expanded from
// that table: a field that is renamed there fails to compile or is caught here
// by name.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_ABI_DESCRIPTORS_H
#define FSDP_ABI_DESCRIPTORS_H

#include "mlir/IR/BuiltinAttributes.h"

#include <array>
#include <string>
#include <utility>
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

} // namespace mlir::fsdp

#endif // FSDP_ABI_DESCRIPTORS_H
