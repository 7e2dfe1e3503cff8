//===- ToolProcess.h - What a tool is given by who starts it ----*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_TOOL_TOOLPROCESS_H
#define FSDP_TOOL_TOOLPROCESS_H

#include "llvm/Support/Process.h"

#include <csignal>
#include <cstdlib>

namespace mlir::fsdp {

/// Opens /dev/null in the place of each closed standard stream: the next file
/// that is opened would take its number, and what is printed would land there.
/// Ignores SIGXFSZ: a write beyond the limit of file sizes (ulimit -f) then
/// fails with EFBIG. Before anything else in main.
inline void prepareProcess() {
  if (llvm::sys::Process::FixupStandardFileDescriptors())
    std::_Exit(1); // there is nowhere to tell it
  std::signal(SIGXFSZ, SIG_IGN);
}

} // namespace mlir::fsdp

#endif // FSDP_TOOL_TOOLPROCESS_H
