//===- ClusterCost.h - What a program costs on a cluster --------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_SCHEDULE_CLUSTERCOST_H
#define FSDP_SCHEDULE_CLUSTERCOST_H

#include "fsdp/Cost/Cluster.h"
#include "fsdp/Schedule/StepProgram.h"

#include <memory>

namespace mlir::fsdp::sched {

struct ClusterCost {
  std::unique_ptr<CostModel> model;
  /// Where the program's groups stand, in their order.
  std::vector<GroupPlacement> placements;
  /// The device whose times the cluster's table has; empty without one.
  std::string tableDevice = {};
  /// How many of its kernels have the time that a profile says.
  int64_t profiledKernels = 0;
};

/// The cost model of @cluster for @program's groups; with the device table and
/// the profile that it names. An error where the ranks do not fit, where no
/// link connects a group, or where the profile has none of the kernels of a
/// step. @isTraced: of a run whose calls are issued and timed one by one, as
/// --trace does, also where the program is a graph else.
llvm::Expected<ClusterCost> createClusterCost(const Cluster &cluster,
                                              const StepProgram &program,
                                              bool isTraced = false);

} // namespace mlir::fsdp::sched

#endif // FSDP_SCHEDULE_CLUSTERCOST_H
