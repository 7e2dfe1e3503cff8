//===- FormatBytes.h - Bytes as people read them ----------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_COST_FORMATBYTES_H
#define FSDP_COST_FORMATBYTES_H

#include "llvm/Support/FormatVariadic.h"

#include <cstdint>
#include <string>

namespace mlir::fsdp {

/// "1.50 GiB", "12.0 MiB", "0.5 KiB".
inline std::string formatBytes(int64_t bytes) {
  if (bytes < (1 << 20))
    return llvm::formatv("{0:f1} KiB", double(bytes) / (1 << 10));
  if (bytes < (1 << 30))
    return llvm::formatv("{0:f1} MiB", double(bytes) / (1 << 20));
  return llvm::formatv("{0:f2} GiB", double(bytes) / (1 << 30));
}

} // namespace mlir::fsdp

#endif // FSDP_COST_FORMATBYTES_H
