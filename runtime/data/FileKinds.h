//===- FileKinds.h - What a file holds instead of text -----------*- C++
//-*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_DATA_FILEKINDS_H
#define FSDP_RT_DATA_FILEKINDS_H

#include "core/Status.h"
#include "data/File.h"

#include <cstdint>
#include <string>
#include <vector>

namespace fsdp::rt::data {

/// Refuses a file whose first bytes are those of UTF-16, UTF-32 or of a known
/// binary format, naming it and what to do. Adds a line to `notes` for what may
/// be meant as text and seldom is: JSON lines, bytes of 0, a byte order mark.
Status checkText(const File &file, std::vector<std::string> &notes);

/// How a file of tokens is to be read.
struct TokenLayout {
  int64_t begin = 0; // bytes before the first
  int64_t tokenBytes = 2;
  int64_t tokens = 0;
};

/// The layout by llm.c's header, by `bits` (0: not given), else of 16 bits.
/// Refuses 16 bits by default where ids may be up to `highest` - 1 and need
/// more, or where the first bytes are those of 32-bit tokens, and what header
/// and size do not fit. Adds a line to `notes` where the first bytes are those
/// of another format, or mostly 0.
Result<TokenLayout> findTokens(const File &file, int64_t bits, int64_t highest,
                               std::vector<std::string> &notes);

} // namespace fsdp::rt::data

#endif // FSDP_RT_DATA_FILEKINDS_H
