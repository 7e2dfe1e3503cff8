//===- DiagnosticPrinter.cpp - Errors as users read them ------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "DiagnosticPrinter.h"

#include "mlir/IR/Location.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/WithColor.h"

using namespace mlir;
using namespace mlir::fsdp;

/// Lines of traced steps, such as a function's signature, are often longer.
static constexpr size_t kMaxLine = 240;

/// Whether the line that `place` is on fits a few lines of a terminal.
static bool isShortLine(llvm::SourceMgr &sources, FileLineColLoc place) {
  for (unsigned id = 1; id <= sources.getNumBuffers(); ++id) {
    const llvm::MemoryBuffer *buffer = sources.getMemoryBuffer(id);
    if (buffer->getBufferIdentifier() != place.getFilename())
      continue;
    SMLoc begin = sources.FindLocForLineAndColumn(id, place.getLine(), 1);
    if (!begin.isValid())
      return true;
    StringRef rest(begin.getPointer(),
                   buffer->getBufferEnd() - begin.getPointer());
    return rest.take_until([](char c) { return c == '\n'; }).size() <= kMaxLine;
  }
  return true;
}

static raw_ostream &printSeverity(DiagnosticSeverity severity) {
  switch (severity) {
  case DiagnosticSeverity::Note:
    return llvm::WithColor::note();
  case DiagnosticSeverity::Warning:
    return llvm::WithColor::warning();
  case DiagnosticSeverity::Error:
    return llvm::WithColor::error();
  case DiagnosticSeverity::Remark:
    return llvm::WithColor::remark();
  }
  llvm_unreachable("a severity that is none of the four");
}

DiagnosticPrinter::DiagnosticPrinter(llvm::SourceMgr &sources,
                                     MLIRContext *context)
    : ScopedDiagnosticHandler(context), sources(sources),
      places(sources, context) {
  // Registered after `places`, and so asked first.
  setHandler([this](Diagnostic &diag) {
    numErrors += diag.getSeverity() == DiagnosticSeverity::Error;
    print(diag);
    for (const Diagnostic &note : diag.getNotes())
      print(note);
  });
}

void DiagnosticPrinter::print(const Diagnostic &diag) {
  Location loc = diag.getLocation();
  if (auto place = loc->findInstanceOf<FileLineColLoc>()) {
    places.emitDiagnostic(place, diag.str(), diag.getSeverity(),
                          isShortLine(sources, place));
    return;
  }
  raw_ostream &os = printSeverity(diag.getSeverity());
  if (auto path = loc->findInstanceOf<NameLoc>();
      path && !path.getName().empty())
    os << "in " << path.getName().getValue() << ": ";
  os << diag << "\n";
}
