//===- StepChoices.h - What is left to the compiler -------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_LIB_DRIVER_STEPCHOICES_H
#define FSDP_LIB_DRIVER_STEPCHOICES_H

#include "fsdp/Driver/AccumulateChoice.h"
#include "fsdp/Driver/Compiler.h"
#include "fsdp/Driver/StepTargets.h"
#include "fsdp/Driver/WrapChoice.h"

namespace mlir::fsdp {

/// --wrap auto and --accumulate-in auto: the step is planned with each value,
/// as it would be compiled, and the best is written into the options.
class StepChoices {
public:
  /// The options of the compiler and its targets; @scheduler is null without a
  /// cluster.
  StepChoices(CompileOptions &options, const StepTargets &targets,
              Frontend &frontend, const StepScheduler *scheduler)
      : options(options), targets(targets), frontend(frontend),
        scheduler(scheduler),
        wrapIsOpen(scheduler && options.partition.wrap == kChosenWrap),
        accumulatorsAreOpen(scheduler && options.partition.accumulateIn ==
                                             AccumulateIn::Auto) {}

  bool choosesWrap() const { return wrapIsOpen; }
  bool choosesAccumulators() const { return accumulatorsAreOpen; }

  /// Tries all values, on copies of the frontend's traced step.
  void choose();
  /// Says what was tried, as remarks and in a line on stderr.
  void report();
  /// What was planned with the values that were taken.
  const StepScheduler::Plans &getPlans() const { return plans; }

private:
  /// What came of planning programs of a copy of the step.
  struct Trial {
    StepScheduler::Plans plans;
    /// A memory budget that would do for all of them, in bytes.
    int64_t leastBudget = 0;
  };
  llvm::Expected<Trial> tryStep(const StepOptions &changed,
                                llvm::function_ref<bool(ProgramOp)> isTried);
  llvm::Error tryWrap(StringRef wrap);
  void chooseWrap();
  llvm::Error tryAccumulators(AccumulateIn in);
  void chooseAccumulators();

  CompileOptions &options;
  const StepTargets &targets;
  Frontend &frontend;
  const StepScheduler *scheduler;
  bool wrapIsOpen, accumulatorsAreOpen;
  /// Values that were tried, and what was planned for each; the ones that were
  /// taken, and what was planned for these.
  SmallVector<WrapTrial> wraps;
  SmallVector<AccumulateTrial> accumulators;
  SmallVector<StepScheduler::Plans> planned;
  size_t wrap = 0, accumulator = 0;
  StepScheduler::Plans plans;
};

} // namespace mlir::fsdp

#endif // FSDP_LIB_DRIVER_STEPCHOICES_H
