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

#include <string>
#include <vector>

namespace fsdp::rt::data {

/// Refuses a file whose first bytes are those of UTF-16, UTF-32 or of a known
/// binary format, naming it and what to do. Adds a line to `notes` for what may
/// be meant as text and seldom is: JSON lines, bytes of 0, a byte order mark.
Status checkText(const File &file, std::vector<std::string> &notes);

/// The same of 16-bit tokens, which may begin with any bytes: adds a line to
/// `notes` where they are those of a known format.
Status checkTokens(const File &file, std::vector<std::string> &notes);

} // namespace fsdp::rt::data

#endif // FSDP_RT_DATA_FILEKINDS_H
