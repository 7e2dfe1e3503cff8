//===- PlanReport.cpp - What a step will do, and why ----------------------===//
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

using namespace mlir::fsdp;
using namespace mlir::fsdp::sched;
using llvm::Twine;

std::string mlir::fsdp::getOpTitle(const StepProgram &program, Id op) {
  const StepOp &it = program.ops[op];
  std::string title;
  if (it.unit >= 0)
    title = program.units[it.unit] + " ";
  title += it.name;
  if (it.kind == StepOpKind::Start && it.queue == Queue::AllGather)
    title += it.backward ? " (backward)" : " (forward)";
  return title;
}

/// Why @op is exposed: why it did not end earlier, unless compute did not wait
/// for it.
static std::string getCause(const PlanVariant &variant, Id op) {
  const StepProgram &program = variant.program;
  const OpSpan &span = variant.timeline.spans[op];
  if (2 * variant.timeline.slowedBy[op] > variant.timeline.exposedBy[op])
    return "compute does not wait for it, but is slower beside it";
  std::string other =
      span.blocker >= 0 ? getOpTitle(program, span.blocker) : "";
  switch (span.why) {
  case Blocker::None:
    return "first in the step, nothing runs before it";
  case Blocker::Input:
    return other.empty() ? "its input was only just computed"
                         : "its input came from " + other;
  case Blocker::Queue:
    return "its queue was busy with " + other;
  case Blocker::After:
    return "the link was busy with " + other;
  case Blocker::Order:
    break;
  case Blocker::Wait:
    break;
  }
  switch (variant.placed[program.ops[op].source]) {
  case Cause::Memory:
    return "no memory to start it earlier";
  case Cause::Limit:
    return "a prefetch limit keeps it from starting earlier";
  default:
    return "issued only where it is needed";
  }
}

std::vector<ExposedTransfer> mlir::fsdp::getExposed(const PlanVariant &variant,
                                                    size_t most) {
  std::vector<ExposedTransfer> result;
  for (auto [i, exposed] : llvm::enumerate(variant.timeline.exposedBy))
    if (exposed > 0)
      result.push_back({Id(i), exposed, ""});
  llvm::sort(result, [](const auto &a, const auto &b) {
    return std::make_pair(-a.exposed, a.op) < std::make_pair(-b.exposed, b.op);
  });
  if (result.size() > most)
    result.resize(most);
  for (ExposedTransfer &transfer : result)
    transfer.cause = getCause(variant, transfer.op);
  return result;
}

std::string mlir::fsdp::getKernelTitle(const KernelCost &kernel) {
  switch (kernel.kind) {
  case KernelKind::Vector:
    return "elementwise or reduction";
  case KernelKind::Copy:
    return "copy";
  case KernelKind::Matmul:
  case KernelKind::Attention:
  case KernelKind::AttentionBackward:
    break;
  }
  std::string batch =
      kernel.batch > 1 ? " in a batch of " + std::to_string(kernel.batch) : "";
  return ((kernel.kind == KernelKind::Matmul ? "product " : "attention ") +
          Twine(kernel.m) + " x " + Twine(kernel.n) + " x " + Twine(kernel.k) +
          batch + ", " + kCostDtypeNames[unsigned(kernel.dtype)])
      .str();
}

double PlanReport::getItemsPerSecond() const {
  return double(items.perRank) * double(worldSize) /
         std::max(1e-12, toSeconds(getBest().timeline.step));
}

std::array<Time, 3> mlir::fsdp::getTimeByKind(const PlanReport &report) {
  std::array<Time, 3> times = {};
  for (const KernelShare &kernel : report.kernels)
    times[kernel.cost.kind == KernelKind::Vector ? 1
          : kernel.cost.kind == KernelKind::Copy ? 2
                                                 : 0] += kernel.time;
  return times;
}

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

namespace {
/// Orders of one program, added to a report.
class Orders {
public:
  Orders(const StepProgram &program, const CostModel &cost,
         llvm::ArrayRef<GroupPlacement> placements, PlanReport &report)
      : program(program), cost(cost), placements(placements), report(report) {}

  llvm::Error prepare();
  llvm::Error addFSDP(const FSDPOptions &options, std::string title) {
    return add("fsdp", std::move(title),
               scheduleLikeFSDP(step.problem, options));
  }
  Time getBound() const { return bound; }
  bool fits() const { return step.problem.budget != kNoBudget; }
  llvm::Error addScheduled(std::string name, std::string title);
  std::string getLimit() const {
    return describeLimit(lowerBound(step.problem));
  }

private:
  llvm::Error add(std::string name, std::string title,
                  const Schedule &schedule);

  const StepProgram &program;
  const CostModel &cost;
  llvm::ArrayRef<GroupPlacement> placements;
  PlanReport &report;
  StepProblem step;
  Time bound = 0;
};
} // namespace

llvm::Error Orders::prepare() {
  TimedProgram times = addTimes(program, cost, placements);
  llvm::Expected<StepProblem> problem = getStepProblem(program, times);
  if (!problem)
    return problem.takeError();
  step = std::move(*problem);
  // What does not fit is shown as if it did, and said.
  step.problem.budget =
      getLeastBudget(step.problem) <= report.budget ? report.budget : kNoBudget;
  bound = getStepBound(program, step, times);
  return llvm::Error::success();
}

llvm::Error Orders::add(std::string name, std::string title,
                        const Schedule &schedule) {
  StepProgram changed = applySchedule(program, step, schedule);
  std::string error = checkProgram(changed);
  if (error.empty())
    error = findBrokenDependency(program, changed);
  if (!error.empty())
    return llvm::createStringError("internal error: " + title + ": " + error);
  PlanVariant variant = simulate(std::move(name), std::move(title),
                                 std::move(changed), cost, placements);
  variant.placed.assign(program.ops.size(), Cause::Data);
  for (auto [t, op] : llvm::enumerate(step.transfers))
    variant.placed[op] = schedule.placeCause[t];
  variant.bound = bound;
  report.variants.push_back(std::move(variant));
  return llvm::Error::success();
}

llvm::Error Orders::addScheduled(std::string name, std::string title) {
  std::optional<Schedule> best = schedule(step.problem);
  if (!best)
    return llvm::createStringError("internal error: no schedule within " +
                                   Twine(step.problem.budget) + " bytes");
  return add(std::move(name), std::move(title), *best);
}

/// What a step that is too large becomes by hand: every unit's activations are
/// checkpointed.
static llvm::Error
addCheckpointedFSDP(const StepProgram &program, const CostModel &cost,
                    llvm::ArrayRef<GroupPlacement> placements,
                    const FSDPOptions &options, PlanReport &report) {
  PlanRules rules;
  rules.keep = PlanRules::Keep::Never;
  rules.recompute = PlanRules::Recompute::Full;
  rules.group = false;
  llvm::Expected<PlannedStep> planned =
      planStep(program, cost, placements, report.budget, rules);
  if (!planned)
    return planned.takeError();
  StepProgram changed = applyPlan(program, planned->plan);
  Orders orders(changed, cost, placements, report);
  if (llvm::Error error = orders.prepare())
    return error;
  return orders.addFSDP(options, getTitle(options) + ", checkpointing");
}

llvm::Error mlir::fsdp::makePlan(StepProgram program,
                                 std::unique_ptr<CostModel> cost,
                                 llvm::ArrayRef<GroupPlacement> placements,
                                 const PlanSettings &settings,
                                 PlanReport &report) {
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
  report.arenaBytes = program.arenaBytes;
  report.worldSize = program.worldSize;
  for (const StepOp &op : program.ops)
    if (op.kernel >= 0) {
      const KernelCost &kernel = program.kernels[op.kernel];
      if (kernel.kind != KernelKind::Vector && kernel.kind != KernelKind::Copy)
        report.flops += double(kernel.flops[unsigned(kernel.dtype)]);
    }

  if (settings.budget)
    report.budget = *settings.budget;
  llvm::Expected<PlannedStep> planned =
      planStep(program, *cost, placements, report.budget, settings.rules);
  if (!planned)
    return planned.takeError();
  report.leastBudget = planned->leastBytes;
  report.decisions = planned->summary;
  StepProgram changed = applyPlan(program, planned->plan);

  Orders plain(program, *cost, placements, report);
  if (llvm::Error error = plain.prepare())
    return error;
  if (!settings.onlyBest) {
    PlanVariant inOrder =
        simulate("in_order", "as compiled, one after the other", program, *cost,
                 placements);
    inOrder.placed.assign(program.ops.size(), Cause::Data);
    inOrder.bound = plain.getBound();
    report.variants.push_back(std::move(inOrder));
  }
  if (plain.fits()) {
    if (llvm::Error error =
            plain.addFSDP(settings.fsdp, getTitle(settings.fsdp)))
      return error;
  } else if (llvm::Error error = addCheckpointedFSDP(program, *cost, placements,
                                                     settings.fsdp, report)) {
    return error;
  }
  if (!report.decisions.empty() && !settings.onlyBest)
    if (llvm::Error error = plain.addScheduled(
            "reordered", "scheduled, with nothing kept or repeated"))
      return error;
  Orders ours(changed, *cost, placements, report);
  if (llvm::Error error = ours.prepare())
    return error;
  if (llvm::Error error = ours.addScheduled("scheduled", "scheduled"))
    return error;
  report.bound = report.getBest().bound;
  report.limit = ours.getLimit();
  report.kernels = getKernels(changed, addTimes(changed, *cost, placements));
  report.cost = std::move(cost);
  return llvm::Error::success();
}
