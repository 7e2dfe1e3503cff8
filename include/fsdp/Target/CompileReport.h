//===- CompileReport.h - What was decided, and why --------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The text of fsdp-compile --emit report.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_TARGET_COMPILEREPORT_H
#define FSDP_TARGET_COMPILEREPORT_H

#include "fsdp/Target/Plan.h"

namespace mlir::fsdp {

/// A remark of a pass: "Passed" or "Missed", "fsdp-plan-step", "Keep", where
/// (empty: not known), and in words.
struct ReportedRemark {
  std::string kind, pass, name, place, text;
};

/// One compiled step. The variant's bound is the scheduler's.
struct CompileReport {
  std::string model, mesh, strategy, cluster, order;
  PlanVariant variant;
  /// Of the arena as it was packed, and what it may take.
  int64_t arenaBytes = 0, budget = 0;
  std::vector<ReportedRemark> remarks;
};

void printCompileReport(const CompileReport &report, llvm::raw_ostream &os);

} // namespace mlir::fsdp

#endif // FSDP_TARGET_COMPILEREPORT_H
