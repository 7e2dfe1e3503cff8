//===- MakePlan.cpp - One step in several orders --------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Arena/SharedBuffers.h"
#include "fsdp/Arena/StepArena.h"
#include "fsdp/Cost/ModelFlops.h"
#include "fsdp/Plan/Report/PlanReport.h"
#include "fsdp/Planning/ProgramTrials.h"
#include "fsdp/Schedule/LowerBound.h"
#include "fsdp/Schedule/Scheduler.h"
#include "fsdp/Schedule/StepSchedule.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/Twine.h"

#include <algorithm>
#include <set>

using namespace mlir::fsdp;
using namespace mlir::fsdp::sched;
using llvm::Twine;

/// Adds the roof of one call of @kernel to that of all.
static void addRoof(const CostModel &cost, const KernelCost &kernel,
                    KernelShare &share) {
  KernelRoof roof = cost.roof(kernel);
  Time longest = share.roof.time;
  if (roof.time >= longest) {
    share.roof.limit = roof.limit;
    share.roof.amount = roof.amount;
  }
  share.roof.time = longest + roof.time;
}

std::vector<KernelShare>
mlir::fsdp::getKernelShares(const StepProgram &program,
                            const TimedProgram &times) {
  std::vector<KernelShare> kernels(program.kernels.size());
  KernelShare copies;
  copies.cost.kind = KernelKind::Copy;
  copies.cost.name = "packs and copies between kernels";
  std::vector<llvm::SetVector<llvm::StringRef>> modules(kernels.size());
  for (auto [i, op] : llvm::enumerate(program.ops)) {
    if (op.kind != StepOpKind::Launch && op.kind != StepOpKind::Copy)
      continue;
    KernelShare &share = op.kernel >= 0 ? kernels[op.kernel] : copies;
    if (op.kernel >= 0)
      share.cost = program.kernels[op.kernel];
    if (op.kernel >= 0 && share.firstOp < 0)
      share.firstOp = Id(i);
    if (op.kernel >= 0 && op.module >= 0)
      modules[op.kernel].insert(program.modules[op.module]);
    share.calls += times.ops[i].work > 0;
    share.time += times.ops[i].work;
    KernelCost copy;
    copy.kind = KernelKind::Copy;
    copy.bytes = op.copiedBytes;
    if (op.kernel >= 0)
      addRoof(*times.cost, program.kernels[op.kernel], share);
    if (op.copiedBytes)
      addRoof(*times.cost, copy, share);
    if (times.ops[i].work > 0)
      share.launch +=
          std::min(times.ops[i].work,
                   times.cost->launch(
                       op.kernel >= 0 ? program.kernels[op.kernel] : copy));
  }
  for (auto [share, names] : llvm::zip_equal(kernels, modules))
    share.modules = foldModules(names.getArrayRef());
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

PlanVariant
mlir::fsdp::simulateVariant(std::string name, std::string title,
                            StepProgram program, const CostModel &cost,
                            llvm::ArrayRef<GroupPlacement> placements) {
  PlanVariant variant;
  variant.name = std::move(name);
  variant.title = std::move(title);
  variant.program = std::move(program);
  variant.timeline = play(addTimes(variant.program, cost, placements));
  variant.memory = getMemory(variant.program, variant.timeline);
  variant.hostPeak = getHostPeak(variant.program, variant.timeline);
  for (const KernelCost &kernel : variant.program.kernels)
    variant.roofs.push_back(cost.roof(kernel));
  for (const StepTransfer &transfer : variant.program.transfers) {
    TransferKey key = makeTransferKey(transfer, placements);
    variant.transfers.push_back({cost.transfer(key), cost.route(key)});
  }
  return variant;
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

/// "planned: 31 kept, 12 repeated, 5 offloaded, 8 grouped".
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
  add(llvm::count(plan.offload, true), "offloaded");
  add(llvm::count_if(plan.group, [](Id group) { return group >= 0; }),
      "grouped");
  return title.empty() ? "planned: as it is" : title;
}

namespace {
/// What is so much of the budget away from it, packing may decide about.
constexpr int kClose = 8;

/// A program to be put in order.
struct Task {
  const StepProgram &program;
  TimedProgram times;
  StepProblem step;
  int64_t leastBytes = 0;
};

class Planner {
public:
  Planner(const CostModel &cost, llvm::ArrayRef<GroupPlacement> placements,
          const PlanSettings &settings, PlanReport &report)
      : cost(cost), placements(placements), settings(settings), report(report) {
  }

  llvm::Error run(StepProgram program);

private:
  llvm::Error repeatAll(StepProgram &program);
  llvm::Error addFSDP(const Task &task);
  llvm::Error addKeepingFSDP(const Task &task);
  llvm::Error addOrders(StepProgram program);
  llvm::Error fit(ProgramTrials &trials);
  llvm::Error fitQuickly(ProgramTrials &trials);
  llvm::Error addPlanned(const StepProgram &program);
  llvm::Error add(std::string name, std::string title, const Task &task,
                  const Schedule &schedule);
  llvm::Error addBest(std::string name, std::string title, const Task &task);
  llvm::Expected<Task> getTask(const StepProgram &program) const;
  Time getBound(const Task &task, const StepProgram &ordered,
                int64_t bytes) const;

  const CostModel &cost;
  llvm::ArrayRef<GroupPlacement> placements;
  const PlanSettings &settings;
  PlanReport &report;
  /// Of the step with nothing kept or repeated.
  int64_t leastAsItIs = 0;
  /// The plan's order and arena are those that were kept last: of the budget
  /// or, where none fits, of the least one.
  bool isPacked = true;
};
} // namespace

llvm::Expected<Task> Planner::getTask(const StepProgram &program) const {
  TimedProgram times = addTimes(program, cost, placements);
  auto step = getStepProblem(program, times);
  if (!step)
    return step.takeError();
  Task task{program, std::move(times), std::move(*step)};
  ScheduleProblem &problem = task.step.problem;
  task.leastBytes = getLeastBudget(problem);
  // What does not fit is shown as if it did, and said.
  problem.budget = task.leastBytes <= report.budget ? report.budget : kNoBudget;
  return std::move(task);
}

/// The bound of all orders in the budget, or, beside one that takes more, in
/// its @bytes. @ordered: that one, with its buffers.
Time Planner::getBound(const Task &task, const StepProgram &ordered,
                       int64_t bytes) const {
  StepProblem step = task.step;
  step.problem.budget = std::max(step.problem.budget, bytes);
  return getStepBound(task.program, step, task.times, ordered,
                      addTimes(ordered, cost, placements));
}

llvm::Error Planner::add(std::string name, std::string title, const Task &task,
                         const Schedule &schedule) {
  StepProgram changed = applySchedule(task.program, task.step, schedule);
  std::string error = findBrokenDependency(task.program, changed);
  shareBuffers(changed);
  if (error.empty())
    error = checkProgram(changed);
  if (!error.empty())
    return llvm::createStringError("internal error: " + title + ": " + error);
  PlanVariant variant = simulateVariant(std::move(name), std::move(title),
                                        std::move(changed), cost, placements);
  variant.mostBytes = schedule.peak;
  variant.bound = getBound(task, variant.program, schedule.peak);
  report.variants.push_back(std::move(variant));
  return llvm::Error::success();
}

llvm::Error Planner::addBest(std::string name, std::string title,
                             const Task &task) {
  std::optional<Schedule> best = schedule(task.step.problem);
  if (!best)
    return llvm::createStringError("internal error: no schedule within " +
                                   Twine(task.step.problem.budget) + " bytes");
  return add(std::move(name), std::move(title), task, *best);
}

/// What settings of FSDP say, and nothing that is chosen.
static PlanRules getFSDPRules(PlanRules::Recompute recompute,
                              PlanRules::Keep keep) {
  PlanRules rules;
  rules.recompute = recompute;
  rules.keep = keep;
  rules.offload = PlanRules::Offload::Never;
  rules.group = PlanRules::Group::Never;
  return rules;
}

/// Activation checkpointing that the user asks for holds for every order.
llvm::Error Planner::repeatAll(StepProgram &program) {
  PlanRules rules =
      getFSDPRules(PlanRules::Recompute::Full, PlanRules::Keep::Never);
  auto planned = planStep(program, cost, placements,
                          {kNoBudget, report.hostBudget}, rules);
  if (!planned)
    return planned.takeError();
  program = applyPlan(program, planned->plan);
  shareBuffers(program);
  return llvm::Error::success();
}

/// FSDP as a user would run it: a step that is too large is checkpointed.
llvm::Error Planner::addFSDP(const Task &task) {
  std::string title = getTitle(settings.fsdp);
  auto addTask = [&](const Task &task) {
    return add("fsdp", title, task,
               scheduleLikeFSDP(task.step.problem, settings.fsdp));
  };
  if (leastAsItIs <= report.budget) {
    if (llvm::Error error = addTask(task))
      return error;
    return settings.onlyBest ? llvm::Error::success() : addKeepingFSDP(task);
  }
  StepProgram repeating = task.program;
  if (llvm::Error error = repeatAll(repeating))
    return error;
  auto smaller = getTask(repeating);
  if (!smaller)
    return smaller.takeError();
  title += ", checkpointing";
  return addTask(*smaller);
}

/// FSDP with reshard_after_forward=False: what one setting gives where there is
/// room for it.
llvm::Error Planner::addKeepingFSDP(const Task &task) {
  PlanRules rules =
      getFSDPRules(PlanRules::Recompute::Never, PlanRules::Keep::Always);
  auto planned = planStep(task.program, cost, placements,
                          {report.budget, report.hostBudget}, rules);
  if (!planned)
    return planned.takeError();
  if (!planned->fits() || !llvm::is_contained(planned->plan.keep, true))
    return llvm::Error::success();
  StepProgram keeping = applyPlan(task.program, planned->plan);
  shareBuffers(keeping);
  auto kept = getTask(keeping);
  if (!kept)
    return kept.takeError();
  return add("fsdp_kept", getTitle(settings.fsdp) + ", all kept", *kept,
             scheduleLikeFSDP(kept->step.problem, settings.fsdp));
}

llvm::Error Planner::addOrders(StepProgram program) {
  if (settings.rules.recompute == PlanRules::Recompute::Full)
    if (llvm::Error error = repeatAll(program))
      return error;
  auto task = getTask(program);
  if (!task)
    return task.takeError();
  leastAsItIs = task->leastBytes;
  if (!settings.onlyBest) {
    PlanVariant inOrder = simulateVariant("in_order", "one after the other",
                                          program, cost, placements);
    inOrder.bound = getBound(*task, inOrder.program,
                             getMemoryPeak(inOrder.memory).getTotal());
    report.variants.push_back(std::move(inOrder));
  }
  size_t first = report.variants.size();
  if (llvm::Error error = addFSDP(*task))
    return error;
  if (llvm::Error error = addBest("scheduled", "scheduled", *task))
    return error;
  if (settings.onlyBest)
    return llvm::Error::success();
  // Gaps may be what is too much.
  for (PlanVariant &variant : llvm::drop_begin(report.variants, first))
    if (getMemoryPeak(variant.memory).getTotal() >
        report.budget - report.budget / kClose) {
      StepProgram packed = variant.program;
      variant.arenaBytes = placeBuffers(packed).totalBytes;
    }
  return llvm::Error::success();
}

/// Plans, orders and packs the step as fsdp-compile does. One that does not fit
/// is shown as what it is with the least budget that works, as it is printed.
llvm::Error Planner::fit(ProgramTrials &trials) {
  auto fit = fitStep(trials, report.budget);
  if (!fit)
    return fit.takeError();
  report.leastBudget = fit->fits() ? fit->bytes : fit->leastBudget;
  if (fit->fits())
    return llvm::Error::success();
  auto least = fitStep(trials, report.getPlannedBudget());
  if (!least)
    return least.takeError();
  if (!least->fits())
    return llvm::createStringError("internal error: no plan within " +
                                   Twine(report.getPlannedBudget()) +
                                   " bytes, which work");
  return llvm::Error::success();
}

/// As fit(), but that what does not fit by the model is packed only where it is
/// close, and what is likely to fit is taken if it does.
llvm::Error Planner::fitQuickly(ProgramTrials &trials) {
  auto [plan, order] = settings.likely;
  bool isLikely = plan != 0;
  if (auto fits = trials.plan(isLikely ? plan : report.budget); !fits)
    return fits.takeError();
  report.leastBudget = trials.getLast().planned.leastBytes;
  if (report.leastBudget > report.budget) {
    // What packing makes of it may fit only where it is close.
    report.isLeastPacked =
        report.leastBudget <= report.budget + report.budget / kClose;
    isPacked = report.isLeastPacked;
    return isPacked ? fit(trials)
                    : trials.plan(report.getPlannedBudget()).takeError();
  }
  if (!isLikely)
    return fit(trials);
  auto outcome = trials.order(order);
  if (!outcome)
    return outcome.takeError();
  if (outcome->bytes > report.budget)
    return fit(trials);
  trials.keep();
  if (StepTrials::Outcome refined = trials.refine(outcome->number);
      refined.bytes <= report.budget && refined.time < outcome->time)
    trials.keep();
  report.leastBudget = trials.getBestOutcome().bytes;
  return llvm::Error::success();
}

llvm::Error Planner::addPlanned(const StepProgram &program) {
  ProgramTrials trials(program, cost, placements, report.hostBudget,
                       settings.rules);
  if (llvm::Error error = settings.onlyBest ? fitQuickly(trials) : fit(trials))
    return error;
  const ProgramTrials::Plan &plan =
      isPacked ? trials.getBest() : trials.getLast();
  Task task{plan.program, addTimes(plan.program, cost, placements), plan.step};
  // Packing may need less than the model says.
  ScheduleProblem &problem = task.step.problem;
  problem.budget = std::max(report.getPlannedBudget(),
                            isPacked ? trials.getBestSchedule().peak
                                     : getLeastBudget(problem));
  report.decisions = plan.planned.summary;
  report.kernels = getKernelShares(plan.program, task.times);
  std::string title = getTitle(program, plan.planned.plan);
  if (llvm::Error error = isPacked ? add("planned", std::move(title), task,
                                         trials.getBestSchedule())
                                   : addBest("planned", std::move(title), task))
    return error;
  noteSlowKernels(report.kernels, report.getBest().timeline.step, /*where=*/"",
                  report.notes);
  report.bound = report.variants.back().bound;
  report.limit = describeLimit(problem, lowerBound(problem), report.bound);
  if (isPacked) {
    report.variants.back().arenaBytes = trials.getBestOutcome().bytes;
    report.fitted = {plan.budget, trials.getBestLimits()};
  }
  return llvm::Error::success();
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
  report.given = settings.budget.value_or(report.getBudgetFor(report.budget));
  report.budget = std::max<int64_t>(0, report.given - report.reserved);
  report.arenaBytes = program.arenaBytes;
  report.worldSize = program.worldSize;
  ModelFlops flops = {};
  for (const StepOp &op : program.ops)
    if (op.kernel >= 0)
      addModelFlops(program.kernels[op.kernel], flops);
  report.flops = double(getTotal(flops));
  report.secondsAtPeak = getSecondsAtPeak(flops, report.peakFlops);
  if (!settings.onlyPlan)
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
