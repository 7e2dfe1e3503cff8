//===- LowerWithManifest.h - The lowering and its manifest ------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_PASSES_LOWERWITHMANIFEST_H
#define FSDP_PASSES_LOWERWITHMANIFEST_H

#include "fsdp/Schedule/StepProgram.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

#include <functional>

namespace mlir::fsdp {

/// Writes the manifest of a module, with the certificates of its programs: what
/// was extracted of each, with the code of its kernels, is the second argument;
/// fails with a diagnostic.
using ManifestWriterFunction = std::function<FailureOr<std::string>(
    ModuleOp, ArrayRef<sched::StepProgram>)>;

/// convert-fsdp-to-runtime with the manifest of what it lowers: the program is
/// extracted, and its kernels' code hashed, once for both.
std::unique_ptr<Pass>
createConvertFSDPToRuntime(ManifestWriterFunction writeManifest);

} // namespace mlir::fsdp

#endif // FSDP_PASSES_LOWERWITHMANIFEST_H
