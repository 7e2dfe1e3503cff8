//===- PlanCompare.cpp - A run beside its simulation ----------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Plan/Report/PlanCompare.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/Format.h"

using namespace mlir::fsdp;
using namespace mlir::fsdp::sched;
using llvm::format;
using llvm::StringRef;

static void printRow(llvm::raw_ostream &os, const std::string &what,
                     Time simulated, Time measured) {
  os << format("  %-44s %12.3f ms %12.3f ms", what.c_str(), toMs(simulated),
               toMs(measured));
  if (simulated > 0)
    os << format(" %8.3f", double(measured) / double(simulated));
  os << "\n";
}

/// How long each queue was busy; of compute what it computed.
static std::array<Time, kNumQueues> getBusy(const PlanVariant &variant) {
  std::array<Time, kNumQueues> busy = {};
  for (auto [op, span] : llvm::zip(variant.program.ops, variant.timeline.spans))
    if (op.kind == StepOpKind::Start)
      busy[unsigned(op.queue)] += span.end - span.begin;
  busy[unsigned(Queue::Compute)] = variant.timeline.compute;
  return busy;
}

/// Why the run's transfer took as long as it did, where that can be told.
static std::string getReason(const OpSpan &simulated, const OpSpan &measured) {
  Time before = simulated.end - simulated.begin,
       after = measured.end - measured.begin, more = after - before;
  if (more > 0 && 2 * measured.stall > more)
    return "it waited for other ranks";
  if (more > 0)
    return "its link, or the cores that served it, are slower than the cluster "
           "file says";
  return more < 0 ? "its link is faster than the cluster file says"
                  : "its link is as fast as the cluster file says";
}

std::vector<std::string>
mlir::fsdp::getRunReasons(const PlanVariant &simulated,
                          const PlanVariant &measured) {
  std::vector<std::string> reasons(measured.program.ops.size());
  for (auto [i, op] : llvm::enumerate(measured.program.ops))
    if (op.kind == StepOpKind::Start)
      reasons[i] =
          getReason(simulated.timeline.spans[i], measured.timeline.spans[i]);
  return reasons;
}

/// Why the run's compute took @difference more than the simulation's.
static StringRef getComputeReason(const PlanReport &report, Time difference) {
  if (difference > 0 && report.comparesFirstStep)
    return "the first step also sets things up, see the note; kernels may be "
           "as fast as they should";
  if (report.hasProfile)
    return difference > 0 ? "kernels are slower than in the profile"
                          : "kernels are faster than in the profile";
  return difference > 0 ? "kernels are slower than the cluster file says "
                          "(--profile takes their times from a run)"
                        : "kernels are faster than the cluster file says "
                          "(--profile takes their times from a run)";
}

/// Which part of the roof kernels reach, in the simulation and in the run; what
/// loses most in the run first.
static void printRoofs(const PlanVariant &simulated,
                       const PlanVariant &measured, llvm::raw_ostream &os) {
  struct Kernel {
    Id kernel;
    Time roof = 0, simulated = 0, measured = 0;
    Time getLost() const { return measured - roof; }
  };
  // No cost model gave them.
  if (simulated.roofs.empty())
    return;
  std::vector<Kernel> kernels(simulated.roofs.size());
  for (auto [i, op] : llvm::enumerate(simulated.program.ops)) {
    // What is copied beside a kernel is no part of its roof.
    if (op.kernel < 0 || op.copiedBytes)
      continue;
    const OpSpan &before = simulated.timeline.spans[i],
                 &after = measured.timeline.spans[i];
    Kernel &kernel = kernels[op.kernel];
    kernel.kernel = op.kernel;
    kernel.roof += simulated.roofs[op.kernel].time;
    kernel.simulated += before.end - before.begin;
    kernel.measured += after.end - after.begin;
  }
  llvm::erase_if(kernels, [](const Kernel &kernel) {
    return kernel.roof == 0 || kernel.measured == 0 || kernel.simulated == 0;
  });
  if (kernels.empty())
    return;
  llvm::sort(kernels, [](const Kernel &a, const Kernel &b) {
    return std::make_pair(-a.getLost(), a.kernel) <
           std::make_pair(-b.getLost(), b.kernel);
  });
  os << "kernels, most time lost to the roof first: simulated and measured "
        "part of it\n";
  for (const Kernel &kernel : llvm::ArrayRef(kernels).take_front(5)) {
    std::string limit = describeLimit(simulated.roofs[kernel.kernel]);
    os << format("  %+10.3f ms  %5.1f %%  %5.1f %%  ", toMs(kernel.getLost()),
                 100.0 * double(kernel.roof) / double(kernel.simulated),
                 100.0 * double(kernel.roof) / double(kernel.measured))
       << simulated.program.kernels[kernel.kernel].name
       << (limit.empty() ? "" : ": ") << limit << "\n";
  }
}

/// "1, 3 to 5": of @worldSize ranks those that @traces lack.
static std::string listAbsent(llvm::ArrayRef<RunTrace> traces,
                              int64_t worldSize) {
  std::string text;
  auto add = [&](int64_t first, int64_t end) {
    if (first >= end)
      return;
    text += (text.empty() ? "" : ", ") + std::to_string(first);
    if (end - first > 1)
      text += (end - first > 2 ? " to " : ", ") + std::to_string(end - 1);
  };
  int64_t next = 0;
  for (const RunTrace &trace : traces) {
    add(next, std::min(trace.rank, worldSize));
    next = std::max(next, trace.rank + 1);
  }
  add(next, worldSize);
  return text;
}

std::vector<std::string>
mlir::fsdp::getRunNotes(llvm::ArrayRef<RunTrace> traces, int64_t worldSize) {
  std::vector<std::string> notes;
  const RunTrace &shown = traces.front();
  if (shown.steps.size() == 1) {
    std::string number = std::to_string(shown.steps.front().number);
    notes.push_back(
        "only step " + number +
        " is in the trace: its first-time costs count (allocation, page "
        "faults, setup); " +
        (shown.isCut ? "the trace was full before the next one ended"
                     : "run it with --steps 10 or more, and the fastest of "
                       "the later ones is shown"));
  }
  if (std::string absent = listAbsent(traces, worldSize); !absent.empty())
    notes.push_back("of " + std::to_string(worldSize) +
                    " ranks, these have no trace in the folder: " + absent);
  return notes;
}

void mlir::fsdp::printComparison(const PlanReport &report,
                                 llvm::raw_ostream &os) {
  const PlanVariant &simulated = report.compared.front(),
                    &measured = report.compared.back();
  const Timeline &s = simulated.timeline, &m = measured.timeline;
  os << "\n"
     << simulated.title << ", beside it " << measured.title << "\n"
     << format("  %-44s %15s %15s %8s\n", "", "simulated", "measured", "ratio");
  printRow(os, "step", s.step, m.step);
  printRow(os, "exposed communication", s.exposed, m.exposed);
  std::array<Time, kNumQueues> before = getBusy(simulated),
                               after = getBusy(measured);
  for (unsigned queue = 0; queue != kNumQueues; ++queue)
    if (before[queue] || after[queue])
      printRow(os,
               queue ? (kQueueNames[queue] + " queue").str()
                     : std::string("compute"),
               before[queue], after[queue]);
  printRow(os, "between calls", s.step - s.compute - s.exposed,
           m.step - m.compute - m.exposed);

  printRoofs(simulated, measured, os);
  os << "collectives\n";
  std::vector<Id> starts;
  for (auto [i, op] : llvm::enumerate(simulated.program.ops))
    if (op.kind == StepOpKind::Start) {
      starts.push_back(Id(i));
      printRow(os, getOpTitle(simulated.program, Id(i)),
               s.spans[i].end - s.spans[i].begin,
               m.spans[i].end - m.spans[i].begin);
    }
  auto getDifference = [&](Id op) {
    return (m.spans[op].end - m.spans[op].begin) -
           (s.spans[op].end - s.spans[op].begin);
  };
  llvm::sort(starts, [&](Id a, Id b) {
    return std::make_pair(-std::abs(getDifference(a)), a) <
           std::make_pair(-std::abs(getDifference(b)), b);
  });
  os << "largest differences\n";
  for (Id op : llvm::ArrayRef(starts).take_front(5))
    if (Time difference = getDifference(op))
      os << format("  %+10.3f ms  ", toMs(difference))
         << getOpTitle(simulated.program, op) << ": "
         << getReason(s.spans[op], m.spans[op]) << "\n";
  if (Time difference = m.compute - s.compute)
    os << format("  %+10.3f ms  ", toMs(difference))
       << "compute: " << getComputeReason(report, difference) << "\n";
}
