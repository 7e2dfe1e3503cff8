//===- CrashHandler.h - What a tool says where it crashes -------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A crash, in MLIR or in this project, is an internal fault: it is said in one
// line, with the file and the pass, and the tool exits with status 2.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_TOOL_CRASHHANDLER_H
#define FSDP_TOOL_CRASHHANDLER_H

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/StringRef.h"

#include <memory>

namespace mlir {
class PassInstrumentation;
} // namespace mlir

namespace mlir::fsdp {

/// Runs @main, a tool's, on a stack of several hundred megabytes (files nest as
/// deep as they like), and returns what it returns. Where it receives a fatal
/// signal, calls abort, meets an LLVM fatal error or gets no memory, the
/// process says so in one line, removes its temporary files and exits: with
/// status 1 where memory is what was missing, else 2. With FSDP_STACK_DUMP set
/// in the environment, it prints the stack, too.
int runTool(llvm::StringRef tool, llvm::function_ref<int()> main);

/// What the line says from now on. Only the thread that runs the tool calls
/// these.
void setCrashFile(llvm::StringRef file);
void setCrashActivity(llvm::StringRef activity);

/// Lives while MLIR's parser reads a file of @bytes. Where the parser has told
/// of a mistake (noteError) and then dies of it, nothing more is said, and the
/// status is 1. So it is, with an error, where it takes more processor time
/// than any file that is whole: the reader of broken bytecode may never end.
class ParsingScope {
public:
  explicit ParsingScope(uint64_t bytes);
  ~ParsingScope();
};
void noteError();

/// Makes the pass that runs what the line says.
std::unique_ptr<PassInstrumentation> createCrashInstrumentation();

} // namespace mlir::fsdp

#endif // FSDP_TOOL_CRASHHANDLER_H
