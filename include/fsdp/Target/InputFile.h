//===- InputFile.h - Texts, compressed or not -------------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_TARGET_INPUTFILE_H
#define FSDP_TARGET_INPUTFILE_H

#include "llvm/Support/Error.h"
#include "llvm/Support/MemoryBuffer.h"

#include <memory>

namespace mlir::fsdp {

/// Reads a file ("-" for standard input); one that is gzip-compressed is
/// decompressed. The buffer carries the file's name.
llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>>
readInputFile(llvm::StringRef file);

} // namespace mlir::fsdp

#endif // FSDP_TARGET_INPUTFILE_H
