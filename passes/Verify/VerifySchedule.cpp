//===- VerifySchedule.cpp - Is the placed step right? ---------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Analysis/Contract/InputContract.h"
#include "fsdp/Analysis/Kernels/KernelTies.h"
#include "fsdp/Analysis/Step/GroupCheck.h"
#include "fsdp/Analysis/Step/PlacedStep.h"
#include "fsdp/Analysis/Step/StepBudget.h"
#include "fsdp/Analysis/Step/StepExtraction.h"
#include "fsdp/Analysis/Step/StepStructure.h"
#include "fsdp/Passes/Passes.h"
#include "fsdp/Schedule/VerifyProgram.h"

namespace mlir::fsdp {
#define GEN_PASS_DEF_VERIFYSCHEDULE
#include "fsdp/Passes/Passes.h.inc"
} // namespace mlir::fsdp

using namespace mlir;
using namespace mlir::fsdp;

namespace {
struct VerifySchedule : fsdp::impl::VerifyScheduleBase<VerifySchedule> {
  using VerifyScheduleBase::VerifyScheduleBase;

  /// What no budget is given for may take what the module's arenas may. Borders
  /// come on top of that.
  int64_t getBudget(ProgramOp step) {
    std::optional<int64_t> bytes =
        getArenaBudget(step->getParentOfType<ModuleOp>());
    if (budget || !bytes || step.getArenaAttr().getBorder())
      return budget;
    return std::max<int64_t>(*bytes, 1);
  }

  void runOnOperation() override {
    markAllAnalysesPreserved();
    ProgramOp step = getOperation();
    if (budget < 0) {
      emitError(step.getLoc())
          << "expected a budget of at least 0 bytes (0: any), got "
          << int64_t(budget);
      return signalPassFailure();
    }
    if (failed(expectAppliedPlan(step)) || failed(checkTies(step)))
      return signalPassFailure();
    auto &[origins, program] = getAnalysis<ExtractedStep>();
    if (failed(program))
      return signalPassFailure();
    std::optional<sched::ProgramFault> fault = sched::verifyProgram(*program);
    if (!fault) {
      if (failed(checkArenaSummary(step, *program, getBudget(step))) ||
          failed(checkGroups(step, *program, origins)))
        signalPassFailure();
      return;
    }
    // What is wrong behind the last op of a step that has none is its own.
    Operation *origin = fault->op < 0 ? step : origins[fault->op];
    InFlightDiagnostic diag = origin->emitError(fault->message);
    if (fault->other >= 0)
      diag.attachNote(origins[fault->other]->getLoc())
          << "the other op is here";
    signalPassFailure();
  }
};
} // namespace
