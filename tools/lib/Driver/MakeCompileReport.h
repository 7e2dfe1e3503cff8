//===- MakeCompileReport.h - A compiled step, explained ---------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_LIB_DRIVER_MAKECOMPILEREPORT_H
#define FSDP_LIB_DRIVER_MAKECOMPILEREPORT_H

#include "fsdp/Driver/Compiler.h"
#include "fsdp/Plan/Report/CompileReport.h"

namespace mlir::fsdp {

/// @module is at L3, ordered by @scheduler, its arena planned; @remarks are
/// what its passes said.
llvm::Expected<CompileReport> makeCompileReport(ModuleOp module,
                                                const CompileOptions &options,
                                                const StepScheduler &scheduler,
                                                ArrayRef<LoggedRemark> remarks);

} // namespace mlir::fsdp

#endif // FSDP_LIB_DRIVER_MAKECOMPILEREPORT_H
