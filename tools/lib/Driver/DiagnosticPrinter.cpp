//===- DiagnosticPrinter.cpp - Errors as users read them ------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Driver/DiagnosticPrinter.h"
#include "fsdp/Support/PrintableText.h"
#include "fsdp/Tool/CrashHandler.h"

#include "mlir/IR/Location.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/WithColor.h"

using namespace mlir;
using namespace mlir::fsdp;

/// Lines of traced steps, such as a function's signature, are often longer.
static constexpr size_t kMaxLine = 240;
/// Callers that are said of an op that was inlined.
static constexpr int kMaxCallers = 8;

/// The number of the buffer that holds the file of @place; 0 where none does.
static unsigned findBuffer(llvm::SourceMgr &sources, FileLineColLoc place) {
  for (unsigned id = 1; id <= sources.getNumBuffers(); ++id)
    if (sources.getMemoryBuffer(id)->getBufferIdentifier() ==
        place.getFilename())
      return id;
  return 0;
}

/// Whether the line that @place, in buffer @id, is on fits a few lines of a
/// terminal and can be printed there.
static bool isReadableLine(llvm::SourceMgr &sources, unsigned id,
                           FileLineColLoc place) {
  SMLoc begin = sources.FindLocForLineAndColumn(id, place.getLine(), 1);
  if (!begin.isValid())
    return true;
  StringRef rest(begin.getPointer(),
                 sources.getMemoryBuffer(id)->getBufferEnd() -
                     begin.getPointer());
  StringRef line = rest.take_front(kMaxLine + 1).take_until([](char c) {
    return c == '\n' || c == '\r';
  });
  return line.size() <= kMaxLine && isPrintable(line);
}

/// The first place in a file that @sources holds, else the first of all; null
/// where @loc has none.
static FileLineColLoc findPlace(llvm::SourceMgr &sources, Location loc) {
  FileLineColLoc first, known;
  loc->walk([&](Location part) {
    auto place = dyn_cast<FileLineColLoc>(part);
    if (!place)
      return WalkResult::advance();
    if (!first)
      first = place;
    if (!findBuffer(sources, place))
      return WalkResult::advance();
    known = place;
    return WalkResult::interrupt();
  });
  return known ? known : first;
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
                                     MLIRContext *context, Filter shows)
    : ScopedDiagnosticHandler(context), sources(sources),
      places(sources, context), shows(std::move(shows)) {
  // Registered after `places`, and so asked first.
  setHandler([this](Diagnostic &diag) {
    if (this->shows && !this->shows(diag))
      return;
    print(diag);
    if (diag.getSeverity() == DiagnosticSeverity::Error) {
      ++numErrors;
      noteError();
    }
    for (const Diagnostic &note : diag.getNotes())
      if (!this->shows || this->shows(note))
        print(note);
  });
}

void DiagnosticPrinter::printAt(FileLineColLoc place, StringRef message,
                                DiagnosticSeverity severity) {
  if (unsigned id = findBuffer(sources, place)) {
    places.emitDiagnostic(place, message, severity,
                          isReadableLine(sources, id, place));
    return;
  }
  llvm::errs() << makePrintable(place.getFilename().getValue()) << ":"
               << place.getLine() << ":" << place.getColumn() << ": ";
  printSeverity(severity) << message << "\n";
}

void DiagnosticPrinter::print(const Diagnostic &diag) {
  Location loc = diag.getLocation();
  // Notes print ops, on several lines.
  std::string message =
      makePrintable(diag.str(), diag.getSeverity() == DiagnosticSeverity::Note
                                    ? Newlines::Kept
                                    : Newlines::Escaped);
  if (auto path = loc->findInstanceOf<NameLoc>();
      path && !path.getName().empty())
    message = "in " + makePrintable(path.getName().getValue()) + ": " + message;
  auto called = loc->findInstanceOf<CallSiteLoc>();
  if (FileLineColLoc place = findPlace(
          sources, called ? Location(called.getCallee()) : Location(loc))) {
    printAt(place, message, diag.getSeverity());
  } else {
    printSeverity(diag.getSeverity()) << message << "\n";
  }
  if (diag.getSeverity() == DiagnosticSeverity::Note)
    return;
  for (int i = 0; called && i != kMaxCallers; ++i) {
    Location caller = called.getCaller();
    called = caller->findInstanceOf<CallSiteLoc>();
    if (FileLineColLoc place =
            findPlace(sources, called ? Location(called.getCallee()) : caller))
      printAt(place, "called from here", DiagnosticSeverity::Note);
  }
}
