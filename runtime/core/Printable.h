//===- Printable.h - Text that a terminal may show --------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_CORE_PRINTABLE_H
#define FSDP_RT_CORE_PRINTABLE_H

#include <string>
#include <string_view>

namespace fsdp::rt {

/// `text`, in which "\x1b" stands for what a terminal would obey rather than
/// show: control characters (but for the end of a line, which messages have),
/// those of UTF-8's second block and bytes that are no UTF-8. Messages hold
/// names out of files.
std::string printable(std::string_view text);

} // namespace fsdp::rt

#endif // FSDP_RT_CORE_PRINTABLE_H
