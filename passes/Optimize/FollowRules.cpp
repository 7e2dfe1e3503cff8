//===- FollowRules.cpp - What is kept and repeated, by rules alone --------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Analysis/Contract/InputContract.h"
#include "fsdp/Analysis/Step/StepExtraction.h"
#include "fsdp/Analysis/Step/StepStructure.h"
#include "fsdp/Cost/FormatBytes.h"
#include "fsdp/Passes/ArenaPlaces.h"
#include "fsdp/Passes/Passes.h"
#include "fsdp/Passes/ProgramPlan.h"
#include "fsdp/Planning/RulePlan.h"

#include "mlir/IR/Remarks.h"

namespace mlir::fsdp {
#define GEN_PASS_DEF_FOLLOWRULES
#include "fsdp/Passes/Passes.h.inc"
} // namespace mlir::fsdp

using namespace mlir;
using namespace mlir::fsdp;
using namespace mlir::fsdp::sched;

/// A remark for each launch that is repeated and each gather that is not.
static void report(const ExtractedStep &step, const StepPlan &plan) {
  const StepProgram &program = *step.program;
  auto passed = [&](size_t op, StringRef name) {
    return remark::passed(
        step.origins[op]->getLoc(),
        remark::RemarkOpts::name(name).category("fsdp-follow-rules"));
  };
  for (auto [i, op] : llvm::enumerate(program.ops)) {
    if (plan.keep[i])
      passed(i, "Keep") << "stays gathered from forward to backward";
    int64_t bytes = 0;
    for (const ByteRange &range : op.writes)
      bytes += plan.recompute[range.value] ? range.bytes : 0;
    if (!bytes)
      continue;
    std::string of = op.checkpoint < 0 ? ""
                                       : ", inside of checkpointed " +
                                             program.checkpoints[op.checkpoint];
    passed(i, "Recompute") << formatBytes(bytes) +
                                  " less are kept for backward" + of;
  }
}

namespace {
struct FollowRules : fsdp::impl::FollowRulesBase<FollowRules> {
  using FollowRulesBase::FollowRulesBase;

  void runOnOperation() override {
    ProgramOp step = getOperation();
    auto &extracted = getAnalysis<ExtractedStep>();
    if (failed(expectUnscheduled(step)) || failed(extracted.program))
      return signalPassFailure();
    FailureOr<StepPlan> given = readDecisions(extracted);
    if (failed(given))
      return signalPassFailure();
    PlanRules rules;
    rules.keep = reshardAfterForward;
    rules.recompute = recompute;
    StepPlan plan = planByRules(*extracted.program, rules, *given);
    writeDecisions(extracted, plan);
    report(extracted, plan);
    // They hold for the step as it was.
    removeArenaPlaces(step);
  }
};
} // namespace
