//===- PlanStep.cpp - What a step keeps, repeats and groups ---------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "MarkedResults.h"
#include "fsdp/Analysis/Contract/InputContract.h"
#include "fsdp/Analysis/Step/StepArguments.h"
#include "fsdp/Analysis/Step/StepExtraction.h"
#include "fsdp/Analysis/Step/StepStructure.h"
#include "fsdp/Cost/ClusterFile.h"
#include "fsdp/Passes/ArenaPlaces.h"
#include "fsdp/Passes/Passes.h"
#include "fsdp/Passes/Pipelines.h"
#include "fsdp/Planning/PlanSearch.h"
#include "fsdp/Schedule/ClusterCost.h"

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
                                                   "Offload", "Group"};
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
    auto writeResults = [&, i = i](StringRef name,
                                   const std::vector<bool> &chosen) {
      SmallVector<int64_t> results;
      for (auto [result, range] : llvm::enumerate(program.ops[i].writes))
        if (chosen[range.value])
          results.push_back(result);
      if (!results.empty())
        origins[i]->setAttr(name, builder.getDenseI64ArrayAttr(results));
    };
    writeResults(names::kRecompute, plan.recompute);
    writeResults(names::kOffload, plan.offload);
  }
}

/// The decisions that the IR holds already.
static FailureOr<StepPlan> read(const StepProgram &program,
                                ArrayRef<Operation *> origins) {
  StepPlan plan(program);
  for (auto [i, op] : llvm::enumerate(program.ops)) {
    Operation *origin = origins[i];
    if (op.kind == StepOpKind::Start) {
      plan.keep[i] = origin->hasAttr(names::kKeep);
      plan.group[i] = getGroup(origin).value_or(-1);
    }
    if (op.kind != StepOpKind::Launch)
      continue;
    auto readResults = [&, &op = op](StringRef name,
                                     std::vector<bool> &chosen) {
      for (Value value : getMarkedResults(origin, name))
        chosen[op.writes[cast<OpResult>(value).getResultNumber()].value] = true;
    };
    readResults(names::kRecompute, plan.recompute);
    readResults(names::kOffload, plan.offload);
  }
  if (std::optional<PlanError> error = findPlanError(program, plan)) {
    if (error->op >= 0)
      return origins[error->op]->emitOpError() << error->what;
    return failure();
  }
  return plan;
}

namespace {
struct PlanStep : fsdp::impl::PlanStepBase<PlanStep> {
  using PlanStepBase::PlanStepBase;
  PlanStep(const PlanStepOptions &options,
           std::shared_ptr<const PlannedStep> known)
      : PlanStepBase(options), known(std::move(known)) {}

  void runOnOperation() override {
    ProgramOp step = getOperation();
    if (llvm::Error error = run(step)) {
      emitInputError(step, llvm::toString(std::move(error)));
      signalPassFailure();
    }
  }

  static void apply(const StepProgram &program, const PlannedStep &planned,
                    ArrayRef<Operation *> origins) {
    write(program, planned.plan, origins);
    for (const PlanDecision &decision : planned.decisions)
      ::report(decision, origins[decision.op]->getLoc());
  }

  llvm::Error run(ProgramOp step) {
    if (budget < 0)
      return llvm::createStringError(
          "expected a budget of at least 0 bytes (0: what the device has), "
          "got " +
          llvm::Twine(budget));
    auto rules =
        parsePlanRules(reshardAfterForward, recompute, offload, bucket);
    if (!rules)
      return rules.takeError();
    if (cluster.empty())
      return llvm::createStringError("expected the option cluster to name a "
                                     "cluster file, got none");
    auto description = loadCluster(cluster);
    if (!description)
      return description.takeError();
    description->stepProfile = profile;
    SmallVector<Operation *> origins;
    FailureOr<StepProgram> program = failure();
    if (succeeded(expectUnscheduled(step)))
      program = extractStepProgram(step, &origins);
    if (failed(program))
      return llvm::createStringError("expected a step that can be planned");
    auto cost = createClusterCost(*description, *program);
    if (!cost)
      return cost.takeError();
    FailureOr<StepPlan> given = read(*program, origins);
    if (failed(given))
      return llvm::createStringError("expected a plan that can be made");
    PlanLimits limits(budget ? budget : description->device.getUsableBytes(),
                      description->host ? description->host->memoryBytes : 0);
    if (known && *given == StepPlan(*program)) {
      apply(*program, *known, origins);
    } else {
      auto planned = planStep(*program, *cost->model, cost->placements, limits,
                              *rules, &*given, /*needs=*/nullptr,
                              getContext().isMultithreadingEnabled());
      if (!planned)
        return planned.takeError();
      apply(*program, *planned, origins);
    }
    // They hold for the step as it was.
    removeArenaPlaces(step);
    return llvm::Error::success();
  }

  std::shared_ptr<const PlannedStep> known;
};
} // namespace

std::unique_ptr<Pass>
fsdp::createPlanStep(const PlanStepOptions &options,
                     std::shared_ptr<const PlannedStep> planned) {
  return std::make_unique<PlanStep>(options, std::move(planned));
}
