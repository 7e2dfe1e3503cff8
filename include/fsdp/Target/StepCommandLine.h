//===- StepCommandLine.h - Options that tools share -------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// For tools: a global of this type adds the options that say which step is read
// and how it is spread over the ranks.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_TARGET_STEPCOMMANDLINE_H
#define FSDP_TARGET_STEPCOMMANDLINE_H

#include "fsdp/Target/Frontend.h"

#include "llvm/Support/CommandLine.h"

namespace mlir::fsdp {

class StepCommandLine {
public:
  explicit StepCommandLine(llvm::cl::OptionCategory &category);
  void fill(StepOptions &options) const;
  /// The first option on the command line that a plan obeys and nothing else;
  /// null: none is there.
  const llvm::cl::Option *findPlanOption() const;

private:
  llvm::cl::opt<std::string> input, optimizerFile, optimizer, mesh, strategy,
      wrap;
  llvm::cl::list<std::string> ignore, replicate;
  llvm::cl::opt<std::string> paramDtype, reduceDtype, bufferDtype;
  llvm::cl::opt<std::string> reshardAfterForward, recompute, offload, bucket;
  llvm::cl::opt<bool> clip;
  llvm::cl::opt<AttentionMode> attention;
  llvm::cl::opt<bool> timing;
};

/// The directory that the running tool lies in; @address is of something
/// in it.
std::string getToolDir(const char *argv0, void *address);

/// An error where an option of @texts is given without a text, as an unset
/// variable of the shell leaves it: it would count as not given.
llvm::Error
expectTexts(llvm::ArrayRef<const llvm::cl::opt<std::string> *> texts);

/// Tells the user's mistake, or the machine's failure, on stderr; returns the
/// exit status for it.
int reportError(const llvm::Twine &message);

} // namespace mlir::fsdp

#endif // FSDP_TARGET_STEPCOMMANDLINE_H
