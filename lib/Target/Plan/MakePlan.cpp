//===- MakePlan.cpp - One step in several orders --------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Analysis/Schedule/Scheduler.h"
#include "fsdp/Target/Plan.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Twine.h"

#include <algorithm>
#include <set>

using namespace mlir::fsdp;
using namespace mlir::fsdp::sched;
using llvm::Twine;

static std::vector<KernelShare> getKernels(const StepProgram &program,
                                           const TimedProgram &times) {
  std::vector<KernelShare> kernels(program.kernels.size());
  KernelShare copies;
  copies.cost.kind = KernelKind::Copy;
  copies.cost.name = "packs and copies between kernels";
  for (auto [i, op] : llvm::enumerate(program.ops)) {
    if (op.kind != StepOpKind::Launch && op.kind != StepOpKind::Copy)
      continue;
    KernelShare &share = op.kernel >= 0 ? kernels[op.kernel] : copies;
    if (op.kernel >= 0)
      share.cost = program.kernels[op.kernel];
    share.calls += times.ops[i].work > 0;
    share.time += times.ops[i].work;
  }
  kernels.push_back(copies);
  llvm::erase_if(kernels, [](const KernelShare &k) { return k.time == 0; });
  llvm::sort(kernels, [](const KernelShare &a, const KernelShare &b) {
    return std::make_pair(-a.time, a.cost.name) <
           std::make_pair(-b.time, b.cost.name);
  });
  return kernels;
}

/// Kernels of a step that was traced in f32, as if it had been traced in
/// @dtype: products run in its units, and half or less of the bytes move.
static void assumeDtype(StepProgram &program, CostDtype dtype) {
  int64_t bytes = getDtypeBytes(dtype);
  if (bytes >= getDtypeBytes(CostDtype::F32))
    return;
  for (KernelCost &kernel : program.kernels) {
    int64_t &from = kernel.flops[unsigned(CostDtype::F32)];
    if (kernel.kind != KernelKind::Matmul || kernel.dtype != CostDtype::F32)
      continue;
    kernel.flops[unsigned(dtype)] += from;
    from = 0;
    kernel.dtype = dtype;
    kernel.bytes = kernel.bytes * bytes / getDtypeBytes(CostDtype::F32);
  }
}

static PlanVariant simulate(std::string name, std::string title,
                            StepProgram program, const CostModel &cost,
                            llvm::ArrayRef<GroupPlacement> placements) {
  PlanVariant variant;
  variant.name = std::move(name);
  variant.title = std::move(title);
  variant.program = std::move(program);
  variant.timeline = play(addTimes(variant.program, cost, placements));
  variant.memory = getMemory(variant.program, variant.timeline);
  return variant;
}

static std::string describeLimit(const Bound &bound) {
  llvm::StringRef what = bound.binding;
  if (what == "queue")
    return bound.bindingIndex == 0
               ? "compute"
               : ("the " + kQueueNames[bound.bindingIndex] + " queue").str();
  if (what == "link")
    return ("the " + kLinkNames[bound.bindingIndex] + " link").str();
  if (what == "contention")
    return "compute, slowed down by the transfers beside it";
  return "the longest chain of dependencies";
}

static std::string getTitle(const FSDPOptions &options) {
  std::string title = "FSDP, prefetching one unit ahead";
  if (!options.forwardPrefetch &&
      options.backwardPrefetch == BackwardPrefetch::None)
    title = "FSDP without prefetch";
  else if (!options.forwardPrefetch)
    title = "FSDP, prefetching in backward";
  else if (options.backwardPrefetch == BackwardPrefetch::None)
    title = "FSDP, prefetching in forward";
  else if (options.backwardPrefetch == BackwardPrefetch::Post)
    title += ", late";
  if (!options.limitAllGathers)
    title += ", unlimited";
  if (options.allReduceOnReduceQueue)
    title += ", one stream";
  return title;
}

/// "planned: 31 gathers kept, 12 launches repeated, 8 transfers grouped".
static std::string getTitle(const StepProgram &program, const StepPlan &plan) {
  std::set<Id> repeated;
  for (const StepOp &op : program.ops)
    for (const ByteRange &range : op.writes)
      if (plan.recompute[range.value])
        repeated.insert(op.source);
  std::string title;
  auto add = [&](int64_t count, llvm::StringRef what) {
    if (count)
      title += (title.empty() ? "planned: " : ", ") + std::to_string(count) +
               " " + what.str();
  };
  add(llvm::count(plan.keep, true), "kept");
  add(repeated.size(), "repeated");
  add(llvm::count_if(plan.group, [](Id group) { return group >= 0; }),
      "grouped");
  return title.empty() ? "planned: as it is" : title;
}

namespace {
class Planner {
public:
  Planner(const CostModel &cost, llvm::ArrayRef<GroupPlacement> placements,
          const PlanSettings &settings, PlanReport &report)
      : cost(cost), placements(placements), settings(settings), report(report) {
  }

  llvm::Error run(StepProgram program);

private:
  llvm::Error repeatAll(StepProgram &program);
  llvm::Error addFSDP(const StepProgram &program, const StepProblem &problem);
  llvm::Error addOrders(const StepProgram &program);
  llvm::Error addPlanned(const StepProgram &program);
  /// @schedule's order of @program, which @problem is of.
  llvm::Error add(std::string name, std::string title,
                  const StepProgram &program, const StepProblem &problem,
                  const Schedule &schedule);
  llvm::Expected<StepProblem> getProblem(const StepProgram &program) const;

  const CostModel &cost;
  llvm::ArrayRef<GroupPlacement> placements;
  const PlanSettings &settings;
  PlanReport &report;
  /// Of the step with nothing kept or repeated.
  int64_t leastAsItIs = 0;
};
} // namespace

llvm::Expected<StepProblem>
Planner::getProblem(const StepProgram &program) const {
  auto problem = getStepProblem(program, addTimes(program, cost, placements));
  // What does not fit is shown as if it did, and said.
  if (problem)
    problem->problem.budget = getLeastBudget(problem->problem) <= report.budget
                                  ? report.budget
                                  : kNoBudget;
  return problem;
}

llvm::Error Planner::add(std::string name, std::string title,
                         const StepProgram &program, const StepProblem &problem,
                         const Schedule &schedule) {
  StepProgram changed = applySchedule(program, problem, schedule);
  std::string error = checkProgram(changed);
  if (error.empty())
    error = findBrokenDependency(program, changed);
  if (!error.empty())
    return llvm::createStringError("internal error: " + title + ": " + error);
  PlanVariant variant = simulate(std::move(name), std::move(title),
                                 std::move(changed), cost, placements);
  variant.mostBytes = schedule.peak;
  variant.bound =
      getStepBound(program, problem, addTimes(program, cost, placements));
  variant.placed.assign(program.ops.size(), Cause::Data);
  for (auto [t, op] : llvm::enumerate(problem.transfers))
    variant.placed[op] = schedule.placeCause[t];
  report.variants.push_back(std::move(variant));
  return llvm::Error::success();
}

/// Activation checkpointing that the user asks for holds for every order.
llvm::Error Planner::repeatAll(StepProgram &program) {
  PlanRules rules;
  rules.recompute = PlanRules::Recompute::Full;
  rules.keep = PlanRules::Keep::Never;
  rules.group = false;
  auto planned = planStep(program, cost, placements, kNoBudget, rules);
  if (!planned)
    return planned.takeError();
  program = applyPlan(program, planned->plan);
  return llvm::Error::success();
}

/// FSDP as a user would run it: a step that is too large is checkpointed.
llvm::Error Planner::addFSDP(const StepProgram &program,
                             const StepProblem &problem) {
  std::string title = getTitle(settings.fsdp);
  if (leastAsItIs <= report.budget)
    return add("fsdp", title, program, problem,
               scheduleLikeFSDP(problem.problem, settings.fsdp));
  StepProgram repeating = program;
  if (llvm::Error error = repeatAll(repeating))
    return error;
  auto smaller = getProblem(repeating);
  if (!smaller)
    return smaller.takeError();
  return add("fsdp", title + ", checkpointing", repeating, *smaller,
             scheduleLikeFSDP(smaller->problem, settings.fsdp));
}

llvm::Error Planner::addOrders(const StepProgram &program) {
  auto problem = getProblem(program);
  if (!problem)
    return problem.takeError();
  leastAsItIs = getLeastBudget(problem->problem);
  std::optional<Schedule> best = schedule(problem->problem);
  if (!best)
    return llvm::createStringError("internal error: no schedule within " +
                                   Twine(problem->problem.budget) + " bytes");
  if (!settings.onlyBest) {
    PlanVariant inOrder =
        simulate("in_order", "one after the other", program, cost, placements);
    inOrder.placed.assign(program.ops.size(), Cause::Data);
    inOrder.bound =
        getStepBound(program, *problem, addTimes(program, cost, placements));
    report.variants.push_back(std::move(inOrder));
  }
  if (llvm::Error error = addFSDP(program, *problem))
    return error;
  return add("scheduled", "scheduled", program, *problem, *best);
}

llvm::Error Planner::addPlanned(const StepProgram &program) {
  PlanRules rules = settings.rules;
  if (rules.recompute == PlanRules::Recompute::Full)
    rules.recompute = PlanRules::Recompute::Never;
  auto planned = planStep(program, cost, placements, report.budget, rules);
  if (!planned)
    return planned.takeError();
  StepProgram changed = applyPlan(program, planned->plan);
  auto problem = getProblem(changed);
  if (!problem)
    return problem.takeError();
  TimedProgram times = addTimes(changed, cost, placements);
  // A plan that uses the room it has needs more than the step itself.
  int64_t least = getLeastBudget(problem->problem);
  report.leastBudget =
      least <= report.budget ? std::min(least, leastAsItIs) : least;
  report.bound = getStepBound(changed, *problem, times);
  report.decisions = planned->summary;
  report.limit = describeLimit(lowerBound(problem->problem));
  report.kernels = getKernels(changed, times);
  std::optional<Schedule> best = schedule(problem->problem);
  if (!best)
    return llvm::createStringError("internal error: no schedule within " +
                                   Twine(problem->problem.budget) + " bytes");
  return add("planned", getTitle(program, planned->plan), changed, *problem,
             *best);
}

llvm::Error Planner::run(StepProgram program) {
  if (settings.computeDtype) {
    assumeDtype(program, *settings.computeDtype);
    report.notes.push_back(
        ("products are costed in " +
         kCostDtypeNames[unsigned(*settings.computeDtype)] +
         "; memory and transfers are those of the step as it was traced")
            .str());
  }
  if (std::string error = checkProgram(program); !error.empty())
    return llvm::createStringError("internal error: " + error);
  if (settings.budget)
    report.budget = std::max<int64_t>(0, *settings.budget - report.reserved);
  report.arenaBytes = program.arenaBytes;
  report.worldSize = program.worldSize;
  for (const StepOp &op : program.ops)
    if (op.kernel >= 0) {
      const KernelCost &kernel = program.kernels[op.kernel];
      if (kernel.kind != KernelKind::Vector && kernel.kind != KernelKind::Copy)
        report.flops += double(kernel.flops[unsigned(kernel.dtype)]);
    }
  if (settings.rules.recompute == PlanRules::Recompute::Full)
    if (llvm::Error error = repeatAll(program))
      return error;
  if (llvm::Error error = addOrders(program))
    return error;
  return addPlanned(program);
}

llvm::Error mlir::fsdp::makePlan(StepProgram program,
                                 std::unique_ptr<CostModel> cost,
                                 llvm::ArrayRef<GroupPlacement> placements,
                                 const PlanSettings &settings,
                                 PlanReport &report) {
  if (llvm::Error error =
          Planner(*cost, placements, settings, report).run(std::move(program)))
    return error;
  report.cost = std::move(cost);
  return llvm::Error::success();
}
