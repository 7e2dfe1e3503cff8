//===- PlanStep.cpp - What a step keeps, repeats and groups ---------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Analysis/InputContract.h"
#include "fsdp/Analysis/Planning/PlanSearch.h"
#include "fsdp/Analysis/Schedule/ClusterCost.h"
#include "fsdp/Analysis/StepArguments.h"
#include "fsdp/Analysis/StepExtraction.h"
#include "fsdp/Passes/ArenaPlaces.h"
#include "fsdp/Passes/Passes.h"

#include "mlir/IR/Remarks.h"

namespace mlir::fsdp {
#define GEN_PASS_DEF_PLANSTEP
#include "fsdp/Passes/Passes.h.inc"
} // namespace mlir::fsdp

using namespace mlir;
using namespace mlir::fsdp;
using namespace mlir::fsdp::sched;

static void report(const PlanDecision &decision, Location loc) {
  static constexpr llvm::StringLiteral kNames[] = {"Keep", "Recompute",
                                                   "Group"};
  remark::RemarkOpts options = remark::RemarkOpts::name(kNames[decision.kind])
                                   .category("fsdp-plan-step");
  if (decision.taken)
    remark::passed(loc, options) << decision.why;
  else
    remark::missed(loc, options) << remark::reason("{0}", decision.why);
}

/// Writes the plan on the ops of the IR that @program's ops come from.
static void write(const StepProgram &program, const StepPlan &plan,
                  ArrayRef<Operation *> origins) {
  for (auto [i, op] : llvm::enumerate(program.ops)) {
    Builder builder(origins[i]->getContext());
    if (plan.keep[i])
      origins[i]->setAttr(names::kKeep, builder.getUnitAttr());
    if (plan.group[i] >= 0)
      origins[i]->setAttr(names::kGroup,
                          builder.getI64IntegerAttr(plan.group[i]));
    if (op.kind != StepOpKind::Launch)
      continue;
    SmallVector<int64_t> again;
    for (auto [result, range] : llvm::enumerate(op.writes))
      if (plan.recompute[range.value])
        again.push_back(result);
    if (!again.empty())
      origins[i]->setAttr(names::kRecompute,
                          builder.getDenseI64ArrayAttr(again));
  }
}

namespace {
struct PlanStep : fsdp::impl::PlanStepBase<PlanStep> {
  using PlanStepBase::PlanStepBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    auto step = module.lookupSymbol<func::FuncOp>(names::kStep);
    if (!step)
      return markAllAnalysesPreserved();
    if (llvm::Error error = run(module, step)) {
      emitError(step.getLoc()) << llvm::toString(std::move(error));
      signalPassFailure();
    }
  }

  llvm::Error run(ModuleOp module, func::FuncOp step) {
    auto rules = parsePlanRules(reshardAfterForward, recompute, bucket);
    if (!rules)
      return rules.takeError();
    auto description = loadCluster(cluster);
    if (!description)
      return description.takeError();
    SmallVector<Operation *> origins;
    FailureOr<StepProgram> program = extractStepProgram(module, &origins);
    if (failed(program))
      return llvm::createStringError("expected a step that can be planned");
    auto cost = createClusterCost(*description, *program);
    if (!cost)
      return cost.takeError();
    auto planned = planStep(
        *program, *cost->model, cost->placements,
        budget ? budget : description->device.getUsableBytes(), *rules);
    if (!planned)
      return planned.takeError();
    write(*program, planned->plan, origins);
    for (const PlanDecision &decision : planned->decisions)
      report(decision, origins[decision.op]->getLoc());
    // They hold for the step as it was.
    removeArenaPlaces(step);
    return llvm::Error::success();
  }
};
} // namespace
