//===- RunProgram.h - Programs that a tool calls ----------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_TOOL_RUNPROGRAM_H
#define FSDP_TOOL_RUNPROGRAM_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/Error.h"

#include <string>

namespace mlir::fsdp {

struct ProgramEnd {
  /// The exit status; below 0 where it could not be run or was killed.
  int status = 0;
  /// What it wrote to its standard output and error, and why it could not be
  /// run.
  std::string output, reason;
};

/// Runs the program `arguments[0]` to its end, without input. What it writes
/// goes to a temporary file in the directory of `place`, which is reported
/// where that cannot be.
llvm::Expected<ProgramEnd> runProgram(llvm::ArrayRef<std::string> arguments,
                                      llvm::StringRef place);

} // namespace mlir::fsdp

#endif // FSDP_TOOL_RUNPROGRAM_H
