//===- CodeGen.h - Objects for the processor at hand ------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_TARGET_CPU_CODEGEN_H
#define FSDP_TARGET_CPU_CODEGEN_H

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/Error.h"

#include <memory>
#include <string>
#include <vector>

namespace llvm {
class LLVMContext;
class Module;
class raw_pwrite_stream;
class TargetMachine;
} // namespace llvm

namespace mlir::fsdp {

/// The processor that code is made for.
struct TargetCpu {
  /// LLVM's name, and the one whose timings are used.
  std::string name, tune;
  /// Everything the code may use, in LLVM's words.
  std::vector<std::string> features;

  /// `native` (this machine, by its micro-architecture level, so that other
  /// machines of the level run it too) or a name that LLVM knows.
  static llvm::Expected<TargetCpu> parse(llvm::StringRef march);
};

llvm::Expected<std::unique_ptr<llvm::TargetMachine>>
createTargetMachine(const TargetCpu &cpu);

/// Translates a module of the LLVM dialect and optimizes it.
llvm::Expected<std::unique_ptr<llvm::Module>>
translateToLLVM(ModuleOp module, llvm::LLVMContext &context,
                llvm::TargetMachine &machine, const TargetCpu &cpu);

/// Writes an ELF object.
llvm::Error emitObject(llvm::Module &module, llvm::TargetMachine &machine,
                       llvm::raw_pwrite_stream &os);

} // namespace mlir::fsdp

#endif // FSDP_TARGET_CPU_CODEGEN_H
