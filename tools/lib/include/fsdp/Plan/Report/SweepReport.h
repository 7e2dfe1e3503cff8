//===- SweepReport.h - Many plans of one step, side by side -----*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The report of `fsdp-plan --sweep`, and the forms it is written in.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_PLAN_REPORT_SWEEPREPORT_H
#define FSDP_PLAN_REPORT_SWEEPREPORT_H

#include "fsdp/Plan/Report/PlanReport.h"

#include <string>
#include <vector>

namespace mlir::fsdp {

/// An option and the values that it takes.
struct SweepAxis {
  /// Without dashes: "mesh".
  std::string name;
  std::vector<std::string> values;
};

struct SweepPoint {
  /// One for each axis.
  std::vector<std::string> values;
  enum Status { Fits, DoesNotFit, Refused } status = Refused;
  /// Why it does not fit, or was refused.
  std::string reason;
  std::string mesh, strategy;
  /// What the planner keeps, repeats and groups.
  std::string plan;
  int64_t ranks = 0;
  /// Of a point that does not fit: of a device with more memory.
  Time step = 0, compute = 0, exposed = 0, bound = 0, fsdpStep = 0;
  int64_t peak = 0, budget = 0, leastBudget = 0;
  /// Of all ranks.
  double itemsPerSecond = 0;
  /// No point that fits is as fast (per step) with less memory, or faster with
  /// as little.
  bool bestForMemory = false;
  /// No point that fits trains more items in a second on as few ranks, or as
  /// many on fewer.
  bool bestForRanks = false;
};

struct SweepReport {
  std::string model, cluster, item;
  /// Of all points, on the first of the clusters.
  KernelCode code;
  std::vector<SweepAxis> axes;
  /// The last axis varies fastest.
  std::vector<SweepPoint> points;

  int64_t count(SweepPoint::Status status) const;
};

/// Fills the marks of points.
void markBest(SweepReport &report);

/// "fits", "does_not_fit", "refused".
llvm::StringRef getStatusName(SweepPoint::Status status);

void printSweepText(const SweepReport &report, llvm::raw_ostream &os);
void printSweepJson(const SweepReport &report, llvm::raw_ostream &os);
/// One page that needs no network.
void printSweepHtml(const SweepReport &report, llvm::raw_ostream &os);

/// @page with @data, which is JSON, in the place of its mark.
void printPage(llvm::StringRef page, llvm::StringRef data,
               llvm::raw_ostream &os);

} // namespace mlir::fsdp

#endif // FSDP_PLAN_REPORT_SWEEPREPORT_H
