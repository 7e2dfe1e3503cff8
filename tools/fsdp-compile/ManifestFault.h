//===- ManifestFault.h - Whether a program would start ----------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_TOOLS_FSDPCOMPILE_MANIFESTFAULT_H
#define FSDP_TOOLS_FSDPCOMPILE_MANIFESTFAULT_H

#include "llvm/ADT/StringRef.h"

#include <string>

namespace mlir::fsdp {

/// Reads @manifest as a program does when it starts (docs/manifest.md); says
/// which rule it breaks, "" where none. Linear in its length.
std::string findManifestFault(llvm::StringRef manifest);

} // namespace mlir::fsdp

#endif // FSDP_TOOLS_FSDPCOMPILE_MANIFESTFAULT_H
