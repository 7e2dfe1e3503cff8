//===- Compiler.h - From a traced step to an executable ---------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What fsdp-compile does, without its command line.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_DRIVER_COMPILER_H
#define FSDP_DRIVER_COMPILER_H

#include "fsdp/Driver/StepScheduler.h"

#include <functional>

namespace mlir::fsdp {

struct CompileOptions : StepOptions {
  /// L0 to LLVMDialect: the module at that level, as text. Report: what was
  /// decided and why, as text; needs a cluster. Ptx: the kernels' code for CUDA
  /// devices, as text; needs the target cuda.
  enum class Emit {
    Executable,
    SharedLibrary,
    L0,
    L1,
    L2,
    L3,
    LLVMDialect,
    LLVM,
    Ptx,
    Report
  };

  /// The level of the input; options that have an effect before it have none.
  Level from = Level::L0;
  /// Print the pipeline instead of running it; the output may be empty.
  bool printsPipeline = false;
  std::string output;
  Emit emit = Emit::Executable;
  /// What kernels get code for: a list.
  std::string targets = "cpu";
  /// The processor that the host's code is made for.
  std::string march = "native";
  /// Devices may round factors of f32 products to TF32.
  bool tf32 = false;
  /// A file of shapes of kernels for CUDA devices; empty: none.
  std::string tuning;
  /// How CUDA devices compute functions of results of 16 bits, if that is said.
  std::optional<MathMode> math;
  /// Which remarks of passes to print. A report holds all.
  RemarkFilters remarks;
  /// Which rule of docs/manifest.md a manifest breaks, as the runtime's reader
  /// says; "" if none. Unset: nobody asks.
  std::function<std::string(llvm::StringRef)> findManifestFault;
  /// Directory of the tool, to find the runtime from.
  std::string toolDir;
};

/// The level that what is to be emitted is made of.
Level getLevel(CompileOptions::Emit emit);

/// Compiles. MLIR's diagnostics have been printed when it fails; the error says
/// what else there is to say. The output is written whole or not at all.
llvm::Error compile(const CompileOptions &options);

} // namespace mlir::fsdp

#endif // FSDP_DRIVER_COMPILER_H
