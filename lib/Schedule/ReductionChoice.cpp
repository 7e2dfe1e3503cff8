//===- ReductionChoice.cpp - Who adds up over ranks -----------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Schedule/ReductionChoice.h"

#include "fsdp/Cost/AnalyticCost.h"
#include "fsdp/Schedule/Timeline.h"

using namespace mlir::fsdp;
using namespace mlir::fsdp::sched;

llvm::Expected<ReductionTimes>
mlir::fsdp::sched::getReductionTimes(const Cluster &cluster, int64_t worldSize,
                                     llvm::ArrayRef<StepTransfer> transfers,
                                     llvm::ArrayRef<RankGroup> groups) {
  std::vector<GroupPlacement> placements;
  for (const RankGroup &group : groups) {
    auto placement = placeGroup(cluster, worldSize, group.size, group.stride);
    if (!placement)
      return placement.takeError();
    placements.push_back(*placement);
  }
  Cluster asGraph = cluster;
  Device &device = asGraph.device;
  device.launchSeconds =
      device.graphLaunchSeconds.value_or(device.launchSeconds);
  AnalyticCost cost(std::move(asGraph), QueueLinks());
  ReductionTimes times;
  for (StepTransfer transfer : transfers) {
    transfer.isExactSum = true;
    times.exact += cost.transfer(makeTransferKey(transfer, placements)).total();
    transfer.isExactSum = false;
    times.nccl += cost.transfer(makeTransferKey(transfer, placements)).total();
  }
  return times;
}

bool mlir::fsdp::sched::isExactFast(const ReductionTimes &times) {
  return times.exact <= times.nccl + times.nccl / 2;
}
