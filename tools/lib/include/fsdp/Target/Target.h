//===- Target.h - What code is made for -------------------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_TARGET_TARGET_H
#define FSDP_TARGET_TARGET_H

#include "fsdp/Passes/Pipelines.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/Error.h"

#include <memory>
#include <string>
#include <vector>

namespace mlir::fsdp {

/// One entry of an artifact's `targets`: a kind of devices that it has code
/// for. The code of programs (descriptors and calls) is the host's whatever the
/// targets; a target makes that of kernels.
class Target {
public:
  virtual ~Target();
  /// The manifest's `kind`, which names the target's code in fsdp.impl.
  virtual StringRef getKind() const = 0;
  /// How fine kernels may be that the target runs well.
  virtual KernelLimits getKernelLimits() const = 0;
  /// Passes that give every kernel its code, from L2's launches. The target
  /// must outlive them.
  virtual Stage getKernelStage() const = 0;
  /// What the manifest says of the target.
  virtual void describe(LowerOptions &options) const = 0;
  /// Makes of the kernels' code in a module of the LLVM dialect what the host's
  /// object carries.
  virtual llvm::Error serializeKernels(ModuleOp module) = 0;
  /// What a user should know of the code that serializeKernels made; empty:
  /// nothing.
  virtual std::string getNote() const { return ""; }
};

struct TargetOptions {
  /// The processor that the host's code is made for.
  StringRef march;
  /// Whether devices may round factors of f32 products to TF32. Processors do
  /// not.
  bool tf32 = false;
  /// A file of format fsdp-tuning/1 for CUDA devices; empty: none.
  std::string tuning;
  /// How CUDA devices compute functions of results of 16 bits; none: as is
  /// their default.
  std::optional<MathMode> math;
};

/// The targets of a list such as "cpu", in its order. Refuses others with those
/// that there are, and options that none of them heeds.
llvm::Expected<std::vector<std::unique_ptr<Target>>>
createTargets(StringRef kinds, const TargetOptions &options);

} // namespace mlir::fsdp

#endif // FSDP_TARGET_TARGET_H
