//===- DiagnosticPrinter.h - Errors as users read them ----------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_LIB_TARGET_DIAGNOSTICPRINTER_H
#define FSDP_LIB_TARGET_DIAGNOSTICPRINTER_H

#include "mlir/IR/Diagnostics.h"

namespace mlir::fsdp {

/// Prints diagnostics, while it lives: with the place in a file where there is
/// one, else with the module path, else with neither. A line of a file is shown
/// only where it can be read at a glance.
class DiagnosticPrinter : public ScopedDiagnosticHandler {
public:
  DiagnosticPrinter(llvm::SourceMgr &sources, MLIRContext *context);
  /// How many of them were errors.
  int64_t getNumErrors() const { return numErrors; }

private:
  void print(const Diagnostic &diag);

  llvm::SourceMgr &sources;
  SourceMgrDiagnosticHandler places;
  int64_t numErrors = 0;
};

} // namespace mlir::fsdp

#endif // FSDP_LIB_TARGET_DIAGNOSTICPRINTER_H
