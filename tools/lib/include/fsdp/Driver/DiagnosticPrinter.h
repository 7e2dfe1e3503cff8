//===- DiagnosticPrinter.h - Errors as users read them ----------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_DRIVER_DIAGNOSTICPRINTER_H
#define FSDP_DRIVER_DIAGNOSTICPRINTER_H

#include "mlir/IR/Diagnostics.h"

namespace mlir::fsdp {

/// Prints diagnostics, while it lives: with the place in a file where there is
/// one, else with the module path, else with neither. A line of a file is shown
/// only where `sources` holds the file (MLIR's own handler opens whatever file
/// a location names) and the line can be read at a glance. What is printed is
/// printable, whatever names hold.
class DiagnosticPrinter : public ScopedDiagnosticHandler {
public:
  using Filter = std::function<bool(const Diagnostic &)>;

  /// Diagnostics and notes that `shows` refuses are not printed.
  DiagnosticPrinter(llvm::SourceMgr &sources, MLIRContext *context,
                    Filter shows = {});
  /// How many of them were errors.
  int64_t getNumErrors() const { return numErrors; }

private:
  void print(const Diagnostic &diag);
  void printAt(FileLineColLoc place, StringRef message,
               DiagnosticSeverity severity);

  llvm::SourceMgr &sources;
  SourceMgrDiagnosticHandler places;
  Filter shows;
  int64_t numErrors = 0;
};

} // namespace mlir::fsdp

#endif // FSDP_DRIVER_DIAGNOSTICPRINTER_H
