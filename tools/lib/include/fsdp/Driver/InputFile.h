//===- InputFile.h - Texts, compressed or not -------------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A file of IR is data that anybody may have written: what would overflow the
// parser, or fill the machine's memory, is refused before it is parsed.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_DRIVER_INPUTFILE_H
#define FSDP_DRIVER_INPUTFILE_H

#include "llvm/Support/Error.h"
#include "llvm/Support/MemoryBuffer.h"

#include <memory>

namespace mlir::fsdp {

/// Bytes of a file of IR, once it is decompressed. The trace of a model of 405
/// B parameters has 10 MB; values of buffers come on top.
constexpr int64_t kDefaultInputLimit = int64_t(1) << 30;

/// Reads a file ("-" for standard input); one that is gzip-compressed is
/// decompressed. The buffer carries the file's name, made printable. Refused
/// are more than @limit bytes, compressed or not, and what checkText refuses.
llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>>
readInputFile(llvm::StringRef file, int64_t limit = kDefaultInputLimit);

/// What MLIR's parser, which calls itself for all that is nested, would meet in
/// a text.
struct TextScan {
  /// Most brackets of any kind that are open at once, and the line that opens
  /// the innermost.
  int64_t depth = 0, deepLine = 0;
  /// Most dimensions of a shape, and its line.
  int64_t rank = 0, rankLine = 0;
  /// Line of the first byte that is 0; 0 where there is none.
  int64_t zeroLine = 0;
  /// What the parser dies of: an array of elements that are no numbers, a kind
  /// of loop that is none; and its line.
  std::string fault;
  int64_t faultLine = 0;
};

/// Strings and comments hold nothing that counts. One pass.
TextScan scanText(llvm::StringRef text);

/// Refuses a text that is too deep to be parsed, has a shape of more dimensions
/// than any tensor, or what the parser dies of. Bytecode passes.
llvm::Error checkText(const llvm::MemoryBuffer &buffer);

} // namespace mlir::fsdp

#endif // FSDP_DRIVER_INPUTFILE_H
