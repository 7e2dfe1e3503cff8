//===- ParseJson.h - JSON of anybody's making -------------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_COST_PARSEJSON_H
#define FSDP_COST_PARSEJSON_H

#include "llvm/Support/JSON.h"

namespace mlir::fsdp {

/// Arrays and objects within each other: no file of ours has a tenth of it.
constexpr unsigned kMostJsonLevels = 64;

/// llvm::json::parse, which calls itself for each level, for text that may nest
/// without end: more than kMostJsonLevels are refused, as are
/// keys that an object has twice. Errors say what was
/// expected and found; the caller adds the file's name.
llvm::Expected<llvm::json::Value> parseJson(llvm::StringRef text);

} // namespace mlir::fsdp

#endif // FSDP_COST_PARSEJSON_H
