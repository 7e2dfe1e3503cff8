//===- ArtifactEntry.h - The symbol that loaders look for -------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_PASSES_LOWER_ARTIFACTENTRY_H
#define FSDP_PASSES_LOWER_ARTIFACTENTRY_H

#include "RuntimeDescriptors.h"

namespace mlir::fsdp {

/// A program's function in the code, and its certificate if it has one.
struct LoweredProgram {
  StringAttr name;
  std::string function, certificate;
};

/// Creates fsdp_rt_artifact_entry, the symbol that an executable or a loader
/// looks for: the ABI's version, @manifest, its digest if one of @programs is
/// certified, and the programs.
void createEntry(ModuleOp module, StringRef manifest,
                 ArrayRef<LoweredProgram> programs,
                 DescriptorBuilder &descriptors);

} // namespace mlir::fsdp

#endif // FSDP_PASSES_LOWER_ARTIFACTENTRY_H
