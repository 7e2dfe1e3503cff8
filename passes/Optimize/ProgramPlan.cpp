//===- ProgramPlan.cpp - A program's plan, found and written --------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Passes/ProgramPlan.h"
#include "MarkedResults.h"
#include "fsdp/Analysis/Contract/InputContract.h"
#include "fsdp/Analysis/Step/StepArguments.h"
#include "fsdp/Analysis/Step/StepExtraction.h"
#include "fsdp/Planning/ProgramTrials.h"
#include "fsdp/Schedule/ClusterCost.h"

#include "mlir/IR/Remarks.h"

using namespace mlir;
using namespace mlir::fsdp;
using namespace mlir::fsdp::sched;

//===----------------------------------------------------------------------===//
// Attributes
//===----------------------------------------------------------------------===//

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

void fsdp::writeDecisions(const ExtractedStep &step, const StepPlan &plan) {
  const StepProgram &program = *step.program;
  ArrayRef<Operation *> origins = step.origins;
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

FailureOr<StepPlan> fsdp::readDecisions(const ExtractedStep &step) {
  const StepProgram &program = *step.program;
  ArrayRef<Operation *> origins = step.origins;
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

StepOrderAttr fsdp::writeOrder(MLIRContext *context, const Schedule &schedule,
                               int64_t arenaBytes) {
  SmallVector<int32_t> line, after, causes;
  for (const LineOp &op : schedule.line)
    line.push_back(op.floating ? -1 - op.id : op.id);
  for (auto [transfer, others] : llvm::enumerate(schedule.after))
    for (Id other : others)
      after.append({int32_t(transfer), other});
  for (Cause cause : schedule.placeCause)
    causes.push_back(int32_t(cause));
  auto list = [&](ArrayRef<int32_t> values) {
    return DenseI32ArrayAttr::get(context, values);
  };
  return StepOrderAttr::get(context, list(line), list(schedule.issue),
                            list(schedule.place), list(schedule.known),
                            list(after), list(causes), schedule.makespan,
                            schedule.peak, arenaBytes);
}

//===----------------------------------------------------------------------===//
// Decision
//===----------------------------------------------------------------------===//

llvm::Expected<ProgramPlan> fsdp::findPlan(const ExtractedStep &step,
                                           const Cluster &cluster,
                                           int64_t budget,
                                           const PlanRules &rules) {
  const FailureOr<StepProgram> &extracted = step.program;
  if (failed(extracted))
    return llvm::createStringError("expected a step that can be planned");
  auto cost = createClusterCost(cluster, *extracted);
  if (!cost)
    return cost.takeError();
  FailureOr<StepPlan> given = readDecisions(step);
  if (failed(given))
    return llvm::createStringError("expected a plan that can be made");
  ProgramTrials trials(*extracted, *cost->model, cost->placements,
                       cluster.host ? cluster.host->memoryBytes : 0, rules,
                       &*given);
  auto fit = fitStep(trials, budget);
  if (!fit)
    return fit.takeError();
  ProgramPlan plan;
  if (!fit->fits()) {
    plan.leastBytes = fit->leastBudget;
    return plan;
  }
  plan.planned = trials.getBest().planned;
  plan.schedule = trials.getBestSchedule();
  plan.outcome = trials.getBestOutcome();
  return plan;
}

//===----------------------------------------------------------------------===//
// Application
//===----------------------------------------------------------------------===//

LogicalResult fsdp::writePlan(ProgramOp program, const ExtractedStep &step,
                              const ProgramPlan &plan) {
  const auto &[origins, extracted] = step;
  if (failed(extracted))
    return failure();
  if (extracted->ops.size() != plan.planned.plan.keep.size())
    return program.emitOpError("expected a plan of ")
           << extracted->ops.size() << " ops, got one of "
           << plan.planned.plan.keep.size();
  writeDecisions(step, plan.planned.plan);
  program->setAttr(
      names::kOrder,
      writeOrder(program.getContext(), plan.schedule, plan.outcome.bytes));
  for (const PlanDecision &decision : plan.planned.decisions)
    report(decision, origins[decision.op]->getLoc());
  return success();
}
