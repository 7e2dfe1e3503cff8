//===- PlanCompare.h - A run beside its simulation --------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// An executable writes with --trace what a rank did and when (docs/plan.md).
// Read back onto the program that it was compiled from, it is a timeline like
// the simulator's, and is shown and compared like one.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_PLAN_REPORT_PLANCOMPARE_H
#define FSDP_PLAN_REPORT_PLANCOMPARE_H

#include "fsdp/Plan/Report/PlanReport.h"

#include "llvm/Support/Error.h"

namespace mlir::fsdp {

/// What a trace says of one op, in microseconds since the trace's first.
struct RunEvent {
  enum Kind { Kernel, Transfer, Wait } kind = Kernel;
  std::string name;
  double begin = 0, duration = 0;
  /// Transfer and wait.
  int64_t event = -1;
  /// Transfer: of its duration, until the other ranks had come.
  double waiting = 0;
};

struct RunStep {
  int64_t number = 0;
  double begin = 0, end = 0;
  /// Each kind in the order in which it was recorded.
  std::vector<RunEvent> events;
};

/// One rank's trace.
struct RunTrace {
  std::string path;
  int64_t rank = 0, worldSize = 1;
  /// getIssueHash of the program that ran, and how it was ordered.
  std::string issue, order;
  /// Those that are whole, by number.
  std::vector<RunStep> steps;
  /// More followed, for which the trace had no room.
  bool isCut = false;
};

/// @text is the file @path's.
llvm::Expected<RunTrace> parseRunTrace(llvm::StringRef text,
                                       llvm::StringRef path);

/// The traces of all ranks in @directory (rank-N.json), by rank. Refuses ranks
/// that did not run one program, each its own.
llvm::Expected<std::vector<RunTrace>> readRunTraces(llvm::StringRef directory);

/// A step of @trace as a timeline of @program: the fastest, which is what the
/// machine disturbed least, but not the first, which sets things up, where
/// there are more. Refuses a trace of another program.
llvm::Expected<PlanVariant> makeRunVariant(const sched::StepProgram &program,
                                           const RunTrace &trace);

/// By op of the program that both are of: why the run's transfer took as long
/// as it did, beside the simulated one.
std::vector<std::string> getRunReasons(const PlanVariant &simulated,
                                       const PlanVariant &measured);

/// What the reader of a comparison with `traces.front()` must know: that only
/// the first step was there, and which of @worldSize ranks have no trace.
std::vector<std::string> getRunNotes(llvm::ArrayRef<RunTrace> traces,
                                     int64_t worldSize);

/// Times of the simulation and of the run side by side. @report has both in
/// `compared`.
void printComparison(const PlanReport &report, llvm::raw_ostream &os);

} // namespace mlir::fsdp

#endif // FSDP_PLAN_REPORT_PLANCOMPARE_H
