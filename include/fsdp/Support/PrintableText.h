//===- PrintableText.h - Names from files, on terminals ---------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_SUPPORT_PRINTABLETEXT_H
#define FSDP_SUPPORT_PRINTABLETEXT_H

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/raw_ostream.h"

#include <string>

namespace mlir::fsdp {

enum class Newlines { Escaped, Kept };

/// @text with every byte that a terminal could act on, or could not show, as
/// \XX (hexadecimal, as MLIR prints strings): control characters, characters
/// that change the direction of writing, and bytes that are no UTF-8. Names in
/// messages come from files, which anybody may have written.
std::string makePrintable(llvm::StringRef text,
                          Newlines newlines = Newlines::Escaped);

/// What @print prints, printable, with its lines.
void printPrintable(llvm::raw_ostream &os,
                    llvm::function_ref<void(llvm::raw_ostream &)> print);

/// Whether makePrintable would return @text as it is.
bool isPrintable(llvm::StringRef text);

} // namespace mlir::fsdp

#endif // FSDP_SUPPORT_PRINTABLETEXT_H
