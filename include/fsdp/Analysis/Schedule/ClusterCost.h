//===- ClusterCost.h - What a program costs on a cluster --------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_ANALYSIS_SCHEDULE_CLUSTERCOST_H
#define FSDP_ANALYSIS_SCHEDULE_CLUSTERCOST_H

#include "fsdp/Analysis/Cost/Cluster.h"
#include "fsdp/Analysis/Schedule/StepProgram.h"

#include <memory>

namespace mlir::fsdp::sched {

struct ClusterCost {
  std::unique_ptr<CostModel> model;
  /// Where the program's groups stand, in their order.
  std::vector<GroupPlacement> placements;
};

/// The cost model of @cluster for @program's groups; with the cluster's device
/// table, if it names one, and the profile in the file @profile, if not empty.
/// An error where the ranks do not fit, or where no link connects a group.
llvm::Expected<ClusterCost> createClusterCost(const Cluster &cluster,
                                              const StepProgram &program,
                                              llvm::StringRef profile = "");

} // namespace mlir::fsdp::sched

#endif // FSDP_ANALYSIS_SCHEDULE_CLUSTERCOST_H
