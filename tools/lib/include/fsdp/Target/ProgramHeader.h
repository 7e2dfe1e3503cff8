//===- ProgramHeader.h - The C header of a shared library -------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A program compiled to a library is one function for C, which returns what
// fsdp_create takes. Its name comes from the library's, so that several can be
// linked into one process.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_TARGET_PROGRAMHEADER_H
#define FSDP_TARGET_PROGRAMHEADER_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <string>

namespace llvm {
class Module;
} // namespace llvm

namespace mlir::fsdp {

/// What a library's names begin with: a C identifier in lower case. `tiny_gpt`
/// for `out/libtiny-gpt.so`.
std::string getProgramPrefix(llvm::StringRef library);

/// The header's path for a library's: `out/libstep.h` for `out/libstep.so`.
/// Refuses a library that is called like its header.
llvm::Expected<std::string> getProgramHeaderPath(llvm::StringRef library);

/// The text of the header of `library` whose program has this manifest.
std::string createProgramHeader(llvm::StringRef library,
                                llvm::StringRef manifest);

/// Defines `<prefix>_program`, and hides everything else but the program's
/// entry.
void addProgramFunction(llvm::Module &module, llvm::StringRef prefix);

} // namespace mlir::fsdp

#endif // FSDP_TARGET_PROGRAMHEADER_H
