//===- PlanText.cpp - A plan for the terminal -----------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Plan/Report/PlanReport.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"

using namespace mlir::fsdp;
using namespace mlir::fsdp::sched;
using llvm::format;

static void printVariant(const PlanReport &report, const PlanVariant &variant,
                         llvm::raw_ostream &os) {
  const Timeline &timeline = variant.timeline;
  os << format("  %-47s %10.3f ms   exposed %10.3f ms   gap %5.1f %%   peak ",
               variant.title.c_str(), toMs(timeline.step),
               toMs(timeline.exposed), 100.0 * variant.getGap())
     << formatBytes(getMemoryPeak(variant.memory).getTotal())
     << (report.isOverBudget(variant) ? " (over the budget)" : "") << "\n";
}

static void printKernels(const PlanReport &report, llvm::raw_ostream &os) {
  os << "\ncostliest kernels\n";
  for (const KernelShare &kernel : llvm::ArrayRef(report.kernels).take_front(5))
    os << format("  %10.3f ms in %6lld calls   ", toMs(kernel.time),
                 (long long)kernel.calls)
       << kernel.cost.name << ": " << getKernelTitle(kernel.cost)
       << (kernel.modules.empty() ? "" : "; ") << describeModules(kernel)
       << "\n";
}

static void printRoofs(const PlanReport &report, llvm::raw_ostream &os) {
  std::vector<const KernelShare *> kernels = getBelowRoof(report);
  if (kernels.empty())
    return;
  Time lost = 0;
  for (const KernelShare *kernel : kernels)
    lost += kernel->getLost();
  os << format("\nbelow the roof (needed bytes at the memory's peak, or "
               "arithmetic at its units'): %.3f ms lost\n",
               toMs(lost));
  for (const KernelShare *kernel : llvm::ArrayRef(kernels).take_front(5)) {
    std::string limit = describeLimit(kernel->roof);
    os << format("  %10.3f ms lost, at %5.1f %% of it   ",
                 toMs(kernel->getLost()),
                 100.0 * double(kernel->roof.time) / double(kernel->time))
       << kernel->cost.name << (limit.empty() ? "" : ": ") << limit << "\n";
  }
}

static void printWhatIfs(const PlanReport &report, llvm::raw_ostream &os) {
  if (report.whatIfs.empty())
    return;
  Time step = report.getBest().timeline.step;
  os << "\nwhat would help (step, difference, --memory-budget that it needs)\n";
  for (const WhatIf &it : report.whatIfs) {
    if (!it.refused.empty()) {
      os << "  refused                           " << it.title << ": "
         << it.refused << "\n";
      continue;
    }
    std::string needs = formatBudget(report.getBudgetFor(it.leastBudget));
    if (report.hasTimeOf(it))
      os << format("  %10.3f ms  %+6.1f %%  ", toMs(it.step),
                   100.0 * double(it.step - step) /
                       double(std::max<Time>(1, step)))
         << llvm::right_justify(needs, 10) << "  " << it.title;
    else
      os << "  does not fit                      " << it.title;
    if (!report.hasTimeOf(it))
      os << " (needs about --memory-budget " << needs << ")";
    else if (it.fits() && !report.fits())
      os << " (fits)";
    os << "\n";
  }
}

void mlir::fsdp::printTransfers(const PlanVariant &variant,
                                llvm::ArrayRef<ReportedTransfer> transfers,
                                llvm::raw_ostream &os) {
  if (transfers.empty())
    os << (hasTransfers(variant) ? ": none, all communication is hidden"
                                 : ": none, ranks do not communicate");
  os << "\n";
  for (const ReportedTransfer &transfer : transfers) {
    const OpSpan &span = variant.timeline.spans[transfer.op];
    os << format("  %10.3f ms exposed of %10.3f ms  ", toMs(transfer.exposed),
                 toMs(span.end - span.begin))
       << getOpTitle(variant.program, transfer.op) << ": " << transfer.cause
       << "\n";
  }
}

void mlir::fsdp::printPeak(const PlanVariant &variant, llvm::raw_ostream &os) {
  MemoryPoint peak = getMemoryPeak(variant.memory);
  os << "memory at the peak (" << format("%.3f ms", toMs(peak.time))
     << "): " << formatBytes(peak.getTotal()) << "\n";
  for (auto [name, bytes] : llvm::zip(kPurposeNames, peak.bytes))
    if (bytes)
      os << format("  %-12s ", name.data()) << formatBytes(bytes) << "\n";
  if (variant.hostPeak)
    os << "memory of the host at its peak: " << formatBytes(variant.hostPeak)
       << "\n";
}

void mlir::fsdp::printFurtherPrograms(llvm::ArrayRef<FurtherProgram> programs,
                                      Time step, int64_t budget,
                                      llvm::raw_ostream &os) {
  if (programs.empty())
    return;
  os << "\nprograms beside the step\n";
  for (const FurtherProgram &it : programs) {
    const Timeline &timeline = it.variant.timeline;
    os << "  " << it.name;
    if (it.kind != it.name)
      os << " (" << it.kind << ")";
    os << format(": %.3f ms (%.1f %% of the step), bound %.3f ms, gap %.1f "
                 "%%; arena ",
                 toMs(timeline.step),
                 100.0 * double(timeline.step) /
                     double(std::max<Time>(1, step)),
                 toMs(it.variant.bound), 100.0 * it.variant.getGap())
       << formatBytes(it.variant.arenaBytes)
       << (it.leastBudget > budget ? " (over the budget)" : "") << "\n";
    os << format("    compute %.3f ms, exposed communication %.3f ms\n",
                 toMs(timeline.compute), toMs(timeline.exposed));
    MemoryPoint peak = getMemoryPeak(it.variant.memory);
    os << "    memory at the peak: " << formatBytes(peak.getTotal());
    llvm::ListSeparator separator(", ");
    os << " (";
    for (auto [name, bytes] : llvm::zip(kPurposeNames, peak.bytes))
      if (bytes)
        os << separator << name << " " << formatBytes(bytes);
    os << ")";
    if (it.variant.hostPeak)
      os << ", of the host " << formatBytes(it.variant.hostPeak);
    os << "\n";
  }
}

void mlir::fsdp::printPlanText(const PlanReport &report,
                               llvm::raw_ostream &os) {
  const PlanVariant &best = report.getBest();
  const Timeline &timeline = best.timeline;
  os << report.model << " on " << report.mesh << " (" << report.strategy
     << "), " << report.cluster << (report.options.empty() ? "" : ", ")
     << report.options << "\n\n";
  if (!report.fits())
    os << "does not fit: " << describeMisfit(report)
       << "; the plan is the one for --memory-budget "
       << formatBudget(report.getBudgetFor(report.leastBudget)) << "\n\n";
  os << format("step %.3f ms, bound %.3f ms, gap %.1f %%\n",
               toMs(timeline.step), toMs(report.bound), 100.0 * best.getGap());
  os << format("compute %.3f ms, exposed communication %.3f ms (%.1f %% of the "
               "step), %.1f TFLOP/s per rank",
               toMs(timeline.compute), toMs(timeline.exposed),
               100.0 * double(timeline.exposed) /
                   double(std::max<Time>(1, timeline.step)),
               report.flops / std::max(1e-12, toSeconds(timeline.step)) / 1e12);
  if (double mfu = report.getMfu())
    os << format(", %.1f %% of the peak", 100 * mfu);
  os << "\n";
  if (std::string code = describeCode(report.code); !code.empty())
    os << code << "\n";
  llvm::ListSeparator comma;
  os << "of compute: ";
  for (auto [name, time] : llvm::zip(kComputeKindNames, getTimeByKind(report)))
    os << comma << name << format(" %.3f ms", toMs(time));
  os << "\n";
  os << "limited by " << report.limit << "\n";
  if (report.items.perRank)
    os << format("%.0f ", report.getItemsPerSecond()) << report.items.name
       << " a second on " << report.worldSize << " ranks\n";
  os << "\norders (gap: of each to the bound of its own kernels and "
        "collectives):\n";
  for (const PlanVariant &variant : report.variants)
    printVariant(report, variant, os);

  if (!report.decisions.empty()) {
    os << "\ndecided:\n";
    for (const std::string &decision : report.decisions)
      os << "  " << decision << "\n";
  }

  os << "\ncostliest collectives";
  printTransfers(best, getExposed(best, 5), os);

  printKernels(report, os);
  printRoofs(report, os);
  printWhatIfs(report, os);

  os << "\n";
  printPeak(best, os);
  os << "budget of the arena: " << formatBytes(report.budget);
  if (best.arenaBytes)
    os << (report.fits() ? ", of which it takes " : "; it takes ")
       << formatBytes(best.arenaBytes);
  os << "; arena of the program before it is scheduled: "
     << formatBytes(report.arenaBytes) << "\n";
  if (double room = report.getRoomForItems(); room >= PlanReport::kMuchRoom)
    os << "free: " << formatBytes(report.budget - report.leastBudget)
       << ", for "
       << (room > PlanReport::kMostRoom
               ? format("more than %.0f", PlanReport::kMostRoom)
               : format("about %.1f", room))
       << " times the " << report.items.name
       << " a rank, beside which collectives stay as they are\n";
  printFurtherPrograms(report.further, timeline.step, report.budget, os);
  if (!report.further.empty() && !report.notes.empty())
    os << "\n";
  for (const std::string &note : report.notes)
    os << "note: " << note << "\n";
}
