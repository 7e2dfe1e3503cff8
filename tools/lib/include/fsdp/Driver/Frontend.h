//===- Frontend.h - From files to a partitioned step ------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What the tools that read a traced step share.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_DRIVER_FRONTEND_H
#define FSDP_DRIVER_FRONTEND_H

#include "fsdp/Driver/Level.h"
#include "fsdp/Driver/RemarkLog.h"
#include "fsdp/Driver/StepOptions.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/DialectRegistry.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/Support/Timing.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/SourceMgr.h"

#include <memory>
#include <string>
#include <vector>

namespace mlir::fsdp {

/// A failure whose reason has been printed: there is nothing more to say.
class ReportedError : public llvm::ErrorInfo<ReportedError> {
public:
  static char ID;
  explicit ReportedError(std::string message) : text(std::move(message)) {}
  void log(llvm::raw_ostream &os) const override { os << text; }
  std::error_code convertToErrorCode() const override {
    return llvm::inconvertibleErrorCode();
  }

private:
  std::string text;
};

/// The stages of a step with @options from @from to at most L2, in their order,
/// where @to is at least @from. @options must outlive them.
llvm::SmallVector<Stage> getPartitionStages(const StepOptions &options,
                                            Level from, Level to);

/// Everything the compiler loads and registers.
void registerCompilerDialects(DialectRegistry &registry);

/// Reads a step and runs passes on it. Prints MLIR's diagnostics while it
/// lives.
class Frontend {
public:
  explicit Frontend(const StepOptions &options);
  ~Frontend();

  /// Keeps what passes remark from now on; @filters have been checked.
  void logRemarks(const RemarkFilters &filters);
  RemarkLog &getRemarks() { return remarks; }
  /// As diagnostics, in the order in which they were made.
  void printRemarks();

  /// Reads the step, with its optimizer.
  llvm::Error read();
  Copyable<PartitionOptions> getPartitionOptions() const;
  /// Runs passes and verifies what they leave. MLIR's options for pass managers
  /// act where the tool has registered them and @op is the step, not a copy.
  llvm::Error runPipeline(llvm::StringRef what,
                          llvm::function_ref<void(OpPassManager &)> build);
  /// On a module of the same context, such as a copy of the step.
  llvm::Error runPipeline(Operation *op, llvm::StringRef what,
                          llvm::function_ref<void(OpPassManager &)> build);

  /// Brings a traced step to L2, and then its compute into kernels. @options
  /// may be others than those that it was read with.
  llvm::Error partition(ModuleOp module, const StepOptions &options);
  llvm::Error makeKernels(ModuleOp module, const StepOptions &options);
  llvm::Error runStage(ModuleOp module, const Stage &stage);

  ModuleOp getModule() { return *module; }

  /// Times a part of the work while it lives, within the part that lives
  /// already: for --timing and --mlir-timing, which print all parts when the
  /// frontend goes. Only the thread that runs the tool makes parts.
  class TimedPart {
  public:
    TimedPart(Frontend &frontend, llvm::StringRef what)
        : frontend(frontend), outer(frontend.part), scope(outer->nest(what)) {
      frontend.part = &scope;
    }
    ~TimedPart() { frontend.part = outer; }
    TimedPart(const TimedPart &) = delete;
    TimedPart &operator=(const TimedPart &) = delete;

  private:
    Frontend &frontend;
    TimingScope *outer, scope;
  };

private:
  llvm::Expected<OwningOpRef<ModuleOp>> parse(llvm::StringRef file);
  llvm::Error loadPlugins();
  llvm::Error addOptimizer();

  const StepOptions &options;
  DefaultTimingManager timing;
  TimingScope total;
  /// The innermost that is being timed.
  TimingScope *part = &total;
  /// --mlir-timing, rather than --timing: passes as well.
  bool timesPasses;
  RemarkLog remarks;
  MLIRContext context;
  /// Keeps texts alive for diagnostics, which print the line they speak of.
  llvm::SourceMgr sources;
  std::unique_ptr<class DiagnosticPrinter> diagnostics;
  OwningOpRef<ModuleOp> module;
};

} // namespace mlir::fsdp

#endif // FSDP_DRIVER_FRONTEND_H
