//===- Linker.h - Executables and shared libraries --------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_TARGET_LINKER_H
#define FSDP_TARGET_LINKER_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/Error.h"

#include <string>

namespace mlir::fsdp {

struct LinkOptions {
  /// Objects to link.
  std::vector<std::string> objects;
  /// Where the runtime's archives and its shared library lie.
  std::string runtimeDir;
  /// A shared library, which needs the runtime's, instead of an executable,
  /// which holds the runtime.
  bool shared = false;
  /// The name by which programs find a shared library.
  std::string soname;
};

/// The system's C++ compiler driver, which links.
llvm::Expected<std::string> findLinkDriver();

/// Links with the runtime into `output`; writes beside it.
llvm::Error link(const LinkOptions &options, llvm::StringRef output);

/// The directory of the runtime's archives for a tool that lies in `toolDir`:
/// beside it in a build tree or an installation.
llvm::Expected<std::string> findRuntime(llvm::StringRef toolDir);

} // namespace mlir::fsdp

#endif // FSDP_TARGET_LINKER_H
