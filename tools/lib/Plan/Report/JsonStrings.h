//===- JsonStrings.h - Arrays of strings in JSON ----------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_LIB_PLAN_REPORT_JSONSTRINGS_H
#define FSDP_LIB_PLAN_REPORT_JSONSTRINGS_H

#include "llvm/Support/JSON.h"

namespace mlir::fsdp {

/// An attribute @key that is an array of @strings.
template <typename Strings>
void writeStrings(llvm::json::OStream &json, llvm::StringRef key,
                  const Strings &strings) {
  json.attributeArray(key, [&] {
    for (llvm::StringRef text : strings)
      json.value(text);
  });
}

} // namespace mlir::fsdp

#endif // FSDP_LIB_PLAN_REPORT_JSONSTRINGS_H
