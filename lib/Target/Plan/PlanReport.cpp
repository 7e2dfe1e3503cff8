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

  TimedProgram times = addTimes(program, *cost, placements);
  report.kernels = getKernels(program, times);
  llvm::Expected<StepProblem> problem = getStepProblem(program, times);
  if (!problem)
    return problem.takeError();
  if (settings.budget)
    report.budget = *settings.budget;
  report.leastBudget = getLeastBudget(problem->problem);
  // What does not fit is shown as if it did, and said.
  problem->problem.budget = report.fits() ? report.budget : kNoBudget;
  report.bound = getStepBound(program, *problem, times);
  report.limit = describeLimit(lowerBound(problem->problem));

  auto add = [&](std::string name, std::string title,
                 const Schedule &schedule) -> llvm::Error {
    StepProgram changed = applySchedule(program, *problem, schedule);
    std::string error = checkProgram(changed);
    if (error.empty())
      error = findBrokenDependency(program, changed);
    if (!error.empty())
      return llvm::createStringError("internal error: " + title + ": " + error);
    PlanVariant variant = simulate(std::move(name), std::move(title),
                                   std::move(changed), *cost, placements);
    variant.placed.assign(program.ops.size(), Cause::Data);
    for (auto [t, op] : llvm::enumerate(problem->transfers))
      variant.placed[op] = schedule.placeCause[t];
    report.variants.push_back(std::move(variant));
    return llvm::Error::success();
  };
  std::optional<Schedule> best = schedule(problem->problem);
  if (!best)
    return llvm::createStringError("internal error: no schedule within " +
                                   Twine(problem->problem.budget) + " bytes");
  if (!settings.onlyBest) {
    PlanVariant inOrder =
        simulate("in_order", "as compiled, one after the other", program, *cost,
                 placements);
    inOrder.placed.assign(program.ops.size(), Cause::Data);
    report.variants.push_back(std::move(inOrder));
  }
  if (llvm::Error error =
          add("fsdp", getTitle(settings.fsdp),
              scheduleLikeFSDP(problem->problem, settings.fsdp)))
    return error;
  if (llvm::Error error = add("scheduled", "scheduled", *best))
    return error;
  report.cost = std::move(cost);
  return llvm::Error::success();
}
