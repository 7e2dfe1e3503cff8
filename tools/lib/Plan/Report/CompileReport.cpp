//===- CompileReport.cpp - What was decided, and why ----------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Plan/Report/CompileReport.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"

using namespace mlir::fsdp;
using namespace mlir::fsdp::sched;
using llvm::format;

/// By unit what it takes when it is gathered; 0 where it never is.
static std::vector<int64_t> getGatheredBytes(const StepProgram &program) {
  std::vector<int64_t> bytes(program.units.size());
  for (const StepTransfer &transfer : program.transfers)
    if (transfer.kind == TransferKind::AllGather)
      for (auto [unit, atom] :
           llvm::zip(transfer.atomUnits, transfer.atomBytes))
        if (unit >= 0)
          bytes[unit] = atom;
  return bytes;
}

static void printUnits(const StepProgram &program, llvm::raw_ostream &os) {
  os << "\nunits\n";
  for (auto [unit, members, bytes] : llvm::zip(
           program.units, program.unitMembers, getGatheredBytes(program))) {
    os << "  " << unit << ": " << members.size()
       << (members.size() == 1 ? " parameter" : " parameters");
    if (bytes)
      os << ", " << formatBytes(bytes) << " gathered";
    os << ": " << llvm::join(members, ", ") << "\n";
  }
}

/// What is issued together.
static void printBuckets(const StepProgram &program, llvm::raw_ostream &os) {
  std::vector<Id> buckets;
  for (auto [i, op] : llvm::enumerate(program.ops))
    if (op.kind == StepOpKind::Start &&
        program.transfers[op.transfer].atomBytes.size() > 1)
      buckets.push_back(i);
  os << "\nbuckets" << (buckets.empty() ? ": none" : "") << "\n";
  for (Id i : buckets) {
    const StepOp &op = program.ops[i];
    const StepTransfer &transfer = program.transfers[op.transfer];
    os << "  " << op.name << " (" << (op.backward ? "backward" : "forward")
       << "), " << transfer.atomBytes.size() << " together, "
       << formatBytes(transfer.getBytes());
    // Sums of a step belong to none.
    if (auto units = getTransferUnits(program, i); !units.empty())
      os << ": " << llvm::join(units, ", ");
    os << "\n";
  }
}

static void printRemarks(llvm::ArrayRef<ReportedRemark> remarks,
                         llvm::raw_ostream &os) {
  os << "\nremarks" << (remarks.empty() ? ": none" : "") << "\n";
  for (const ReportedRemark &remark : remarks) {
    os << "  [" << remark.kind << "] " << remark.pass << " " << remark.name
       << ": " << remark.text;
    if (!remark.place.empty())
      os << " (" << remark.place << ")";
    os << "\n";
  }
}

void mlir::fsdp::printCompileReport(const CompileReport &report,
                                    llvm::raw_ostream &os) {
  const PlanVariant &variant = report.variant;
  const Timeline &timeline = variant.timeline;
  os << report.model << " on " << report.mesh << " (" << report.strategy
     << "), " << report.cluster << ", order " << report.order << "\n\n";
  os << format("step %.3f ms, bound %.3f ms, gap %.1f %%; arena ",
               toMs(timeline.step), toMs(variant.bound),
               100.0 * variant.getGap())
     << formatBytes(variant.arenaBytes) << " of " << formatBytes(report.budget)
     << "\n";
  os << format("compute %.3f ms, exposed communication %.3f ms (%.1f %% of the "
               "step)\n\n",
               toMs(timeline.compute), toMs(timeline.exposed),
               100.0 * double(timeline.exposed) /
                   double(std::max<Time>(1, timeline.step)));
  printPeak(variant, os);
  printFurtherPrograms(report.further, timeline.step, report.budget, os);
  os << "\nexposed collectives";
  printTransfers(variant, getExposed(variant), os);
  printUnits(variant.program, os);
  printBuckets(variant.program, os);
  printRemarks(report.remarks, os);
}
