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

#ifndef FSDP_DRIVER_STEPCOMMANDLINE_H
#define FSDP_DRIVER_STEPCOMMANDLINE_H

#include "fsdp/Driver/Frontend.h"
#include "fsdp/Tool/OutputFile.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/CommandLine.h"

namespace mlir::fsdp {

/// The directory that the running tool lies in; @address is of something
/// in it.
std::string getToolDir(const char *argv0, void *address);

/// An error where an option of @texts is given without a text, as an unset
/// variable of the shell leaves it: it would count as not given.
llvm::Error
expectTexts(llvm::ArrayRef<const llvm::cl::opt<std::string> *> texts);

/// An error where @option has none of @values.
llvm::Error expectOneOf(const llvm::cl::opt<std::string> &option,
                        llvm::ArrayRef<llvm::StringRef> values);

/// What must stand beside an option for it to have an effect.
struct OptionRule {
  const llvm::cl::Option *option;
  /// The other option, such as "--emit", and its value; empty: it is not there.
  llvm::StringRef other, value;
  /// Its values beside which the option has an effect; none: any.
  llvm::SmallVector<llvm::StringRef> values;
  llvm::StringRef reason;
  /// The other option must not be there.
  bool isExcluded = false;
};

/// The options of the pipelines, and where the step is.
class StepCommandLine {
public:
  /// @without: names of options that the tool does not have.
  explicit StepCommandLine(llvm::cl::OptionCategory &category,
                           llvm::ArrayRef<llvm::StringRef> without = {});
  /// An error where one of its options is given without a text, or any option
  /// more than once that has one value.
  llvm::Error check() const;
  void fill(StepOptions &options) const;
  /// What the options of the pipelines were parsed into.
  const StepOptions &get() const { return values; }
  const llvm::cl::Option &getOptimizerFile() const { return optimizerFile; }
  const llvm::cl::Option &getMemoryBudget() const { return memoryBudget; }
  /// Kernels were measured with units of one wrap.
  OptionRule getProfileRule() const;

private:
  StepOptions values;
  llvm::cl::opt<std::string> input, optimizerFile, memoryBudget;
  llvm::cl::list<std::string> dialectPlugins;
  llvm::cl::opt<bool> timing;
  llvm::cl::opt<std::string> inputLimit;
};

/// What --input-limit says: bytes, as `64MiB`.
llvm::Expected<int64_t>
parseInputLimit(const llvm::cl::opt<std::string> &option);

/// What is given but could have no effect is a mistake: "expected --emit exe or
/// so beside --march, got report: " and the reason, of the first of @rules that
/// does not hold.
llvm::Error checkRules(llvm::ArrayRef<OptionRule> rules);

/// What options of a step need of each other, in the same words. For each point
/// of a sweep, too, whose options nobody gave on the command line.
llvm::Error checkTogether(const StepOptions &options);

/// Refuses outputs that are one file, or what a step and its plan are read
/// from.
llvm::Error expectApart(llvm::ArrayRef<NamedFile> outputs,
                        const StepOptions &step, llvm::StringRef cluster,
                        llvm::StringRef profile);

/// Tells the user's mistake, or the machine's failure, on stderr; returns the
/// exit status for it.
int reportError(const llvm::Twine &message);
/// The same, unless it has been told.
int reportError(llvm::Error error);

} // namespace mlir::fsdp

#endif // FSDP_DRIVER_STEPCOMMANDLINE_H
