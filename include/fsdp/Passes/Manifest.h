//===- Manifest.h - What an executable says of itself -----------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_PASSES_MANIFEST_H
#define FSDP_PASSES_MANIFEST_H

#include "fsdp/Schedule/StepProgram.h"

#include "mlir/IR/BuiltinOps.h"

#include <string>
#include <vector>

namespace mlir::fsdp {

/// What there is code for: a kind of devices, the processor (of cuda: the least
/// one, as sm_80) and features that the code needs, in LLVM's words.
struct CodeTarget {
  std::string kind, cpu;
  std::vector<std::string> features;
};

/// What the module itself does not say.
struct ManifestOptions {
  std::vector<CodeTarget> targets;
};

/// The manifest (docs/manifest.md) of a module whose programs have planned
/// arenas and are step programs (extractStepProgram).
FailureOr<std::string> createManifest(ModuleOp module,
                                      const ManifestOptions &options);
/// The same where what is certified of each program of @module is known.
std::string createManifest(ModuleOp module,
                           ArrayRef<sched::StepProgram> programs,
                           const ManifestOptions &options);

} // namespace mlir::fsdp

#endif // FSDP_PASSES_MANIFEST_H
