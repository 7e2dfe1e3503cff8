//===- Descriptors.cpp - What runtime functions are called with -----------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/ABI/Descriptors.h"

#include "llvm/ADT/StringMap.h"

using namespace mlir;
using namespace mlir::fsdp;

//===----------------------------------------------------------------------===//
// The table
//===----------------------------------------------------------------------===//

namespace {
struct TableEntry {
  llvm::StringLiteral descriptor;
  FieldInfo field;
};
} // namespace

static constexpr TableEntry kFields[] = {
#define FSDP_RT_FIELD(desc, kind, name) {#desc, {FieldKind::kind, #name}},
#include "fsdp-rt/abi.def"
};

static constexpr std::pair<llvm::StringLiteral, llvm::StringLiteral>
    kFunctions[] = {
#define FSDP_RT_CALL(name, desc, Category, WORKSPACE) {#name, #desc},
#include "fsdp-rt/calls.def"
};

ArrayRef<FieldInfo> fsdp::getDescriptorFields(StringRef name) {
  static const auto table = [] {
    llvm::StringMap<SmallVector<FieldInfo>> result;
    for (const TableEntry &entry : kFields)
      result[entry.descriptor].push_back(entry.field);
    return result;
  }();
  auto it = table.find(name);
  return it == table.end() ? ArrayRef<FieldInfo>() : it->second;
}

StringRef fsdp::getFunctionDescriptor(StringRef name) {
  for (auto &[function, descriptor] : kFunctions)
    if (function == name)
      return descriptor;
  return {};
}

//===----------------------------------------------------------------------===//
// Descriptor
//===----------------------------------------------------------------------===//

void Descriptor::set(StringRef field, Field value) {
  if (llvm::none_of(getDescriptorFields(name),
                    [&](const FieldInfo &info) { return info.name == field; }))
    llvm::report_fatal_error("no field '" + Twine(field) + "' in descriptor " +
                             name);
  fields.push_back({field.str(), std::move(value)});
}

const Descriptor::Field *Descriptor::lookup(StringRef field) const {
  for (auto &[key, value] : fields)
    if (key == field)
      return &value;
  return nullptr;
}
