//===- KernelCode.h - A digest of what kernels do ---------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_ANALYSIS_STEP_KERNELCODE_H
#define FSDP_ANALYSIS_STEP_KERNELCODE_H

#include "fsdp/Dialect/FSDP/IR/FSDP.h"
#include "fsdp/Schedule/StepProgram.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OperationSupport.h"

#include <string>

namespace mlir::fsdp {

/// How text is printed that is hashed: the same whatever the command line says
/// of printing, for a module that was made by passes and one that was parsed.
OpPrintingFlags getHashedForm();

/// SHA-256, in hexadecimal, of all code of @module but its programs: kernels,
/// their descriptions, and what they call and read. Names of values and
/// locations are no part of it.
std::string getKernelCode(ModuleOp module);

/// What a certificate is about: the program with its kernels' code.
FailureOr<sched::StepProgram> extractCertifiedProgram(ProgramOp step);

} // namespace mlir::fsdp

#endif // FSDP_ANALYSIS_STEP_KERNELCODE_H
