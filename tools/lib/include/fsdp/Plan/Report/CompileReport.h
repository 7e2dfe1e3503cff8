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

#ifndef FSDP_PLAN_REPORT_COMPILEREPORT_H
#define FSDP_PLAN_REPORT_COMPILEREPORT_H

#include "fsdp/Plan/Report/PlanReport.h"

namespace mlir::fsdp {

/// A remark of a pass: "Passed" or "Missed", "fsdp-plan-step", "Keep", where
/// (empty: not known), and in words.
struct ReportedRemark {
  std::string kind, pass, name, place, text;
};

/// One compiled step, and what is compiled with it. The variant's bound is the
/// scheduler's.
struct CompileReport {
  std::string model, mesh, strategy, cluster, order;
  PlanVariant variant;
  /// Bytes that an arena may take.
  int64_t budget = 0;
  /// As they were compiled, in the order of the module.
  std::vector<FurtherProgram> further;
  std::vector<ReportedRemark> remarks;
};

void printCompileReport(const CompileReport &report, llvm::raw_ostream &os);

} // namespace mlir::fsdp

#endif // FSDP_PLAN_REPORT_COMPILEREPORT_H
