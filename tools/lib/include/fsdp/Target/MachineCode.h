//===- MachineCode.h - From LLVM IR to code -------------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What all targets do alike with LLVM's code generators.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_TARGET_MACHINECODE_H
#define FSDP_TARGET_MACHINECODE_H

#include "llvm/Support/CodeGen.h"
#include "llvm/Support/Error.h"

#include <memory>

namespace llvm {
class Module;
class raw_pwrite_stream;
class TargetMachine;
class Triple;
} // namespace llvm

namespace mlir::fsdp {

/// A code generator for `cpu` of `triple`, a registered target, with LLVM's
/// `features` ("+a,+b"). It never contracts a multiplication and an addition to
/// one rounding: results of an op do not depend on its neighbours.
llvm::Expected<std::unique_ptr<llvm::TargetMachine>>
createMachine(const llvm::Triple &triple, llvm::StringRef cpu,
              llvm::StringRef features);

/// Runs LLVM's pipeline of -O2.
void optimize(llvm::Module &module, llvm::TargetMachine &machine);

/// Writes an object or assembly.
llvm::Error emitCode(llvm::Module &module, llvm::TargetMachine &machine,
                     llvm::CodeGenFileType type, llvm::raw_pwrite_stream &os);

} // namespace mlir::fsdp

#endif // FSDP_TARGET_MACHINECODE_H
