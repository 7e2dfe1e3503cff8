//===- ClusterCost.cpp - What a program costs on a cluster ----------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Schedule/ClusterCost.h"
#include "fsdp/Cost/AnalyticCost.h"
#include "fsdp/Cost/MeasuredCost.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir::fsdp;
using namespace mlir::fsdp::sched;

/// Where the groups of @program stand.
static llvm::Expected<std::vector<GroupPlacement>>
placeGroups(const Cluster &cluster, const StepProgram &program) {
  // A step that never communicates needs its ranks, too.
  if (auto world = placeGroup(cluster, program.worldSize, 1, 1); !world)
    return world.takeError();
  std::vector<GroupPlacement> placements;
  for (const RankGroup &group : program.groups) {
    auto placement =
        placeGroup(cluster, program.worldSize, group.size, group.stride);
    if (!placement)
      return placement.takeError();
    placements.push_back(*placement);
  }
  return placements;
}

/// The group that moves most bytes by collectives whose own queue is in
/// @queues.
static GroupPlacement getMainGroup(const StepProgram &program,
                                   llvm::ArrayRef<GroupPlacement> placements,
                                   llvm::ArrayRef<Queue> queues) {
  std::vector<int64_t> bytes(program.groups.size());
  for (const StepTransfer &transfer : program.transfers)
    if (llvm::is_contained(queues, getQueue(transfer.kind)))
      for (int64_t atom : transfer.atomBytes)
        bytes[transfer.group] += atom;
  auto most = llvm::max_element(bytes);
  return most == bytes.end() || *most == 0 ? GroupPlacement()
                                           : placements[most - bytes.begin()];
}

llvm::Expected<ClusterCost> mlir::fsdp::sched::createClusterCost(
    const Cluster &cluster, const StepProgram &program, bool isTraced) {
  auto placements = placeGroups(cluster, program);
  if (!placements)
    return placements.takeError();
  int64_t hostState = getHostStateBytes(program);
  bool usesHost = hostState || llvm::any_of(program.transfers,
                                            [](const StepTransfer &transfer) {
                                              return transfer.isCopy();
                                            });
  if (usesHost && !cluster.host)
    return llvm::createStringError(
        "expected links.host in the description of cluster " + cluster.name +
        ", since the step offloads to the host, got none");
  if (hostState && hostState > cluster.host->memoryBytes)
    return llvm::createStringError(
        "expected at most " + std::to_string(cluster.host->memoryBytes) +
        " bytes of states on the host (memory_gib of links.host of "
        "cluster " +
        cluster.name + "), got " + std::to_string(hostState));
  QueueLinks links = getQueueLinks(
      cluster,
      getMainGroup(program, *placements, {Queue::AllGather, Queue::Reduce}),
      getMainGroup(program, *placements, {Queue::AllReduce}));
  Cluster measuredCluster = cluster;
  Device &device = measuredCluster.device;
  std::optional<DeviceTable> table;
  if (!cluster.deviceTable.empty()) {
    llvm::Expected<DeviceTable> loaded = DeviceTable::load(cluster.deviceTable);
    if (!loaded)
      return llvm::createStringError(
          "device.table of cluster '" + cluster.name +
          "': " + llvm::toString(loaded.takeError()));
    table = std::move(*loaded);
    device.launchSeconds =
        table->getLaunchSeconds().value_or(device.launchSeconds);
    if (std::optional<double> launch = table->getGraphLaunchSeconds())
      device.graphLaunchSeconds = launch;
  }
  if (program.isGraph && !isTraced)
    device.launchSeconds =
        device.graphLaunchSeconds.value_or(device.launchSeconds);
  ClusterCost cost{std::make_unique<AnalyticCost>(measuredCluster, links),
                   std::move(*placements)};
  if (table)
    cost.tableDevice = table->getDevice();
  if (cluster.deviceTable.empty() && cluster.stepProfile.empty())
    return std::move(cost);
  std::optional<StepProfile> measured;
  if (!cluster.stepProfile.empty()) {
    llvm::Expected<StepProfile> loaded = StepProfile::load(cluster.stepProfile);
    if (!loaded)
      return loaded.takeError();
    measured = std::move(*loaded);
    cost.profiledKernels =
        llvm::count_if(program.kernels, [&](const KernelCost &kernel) {
          return measured->seconds(kernel).has_value();
        });
    // A profile is of steps: another program may share no kernel with one, and
    // then takes the times of the cluster file.
    if (cost.profiledKernels == 0 && program.isStep)
      return llvm::createStringError(
          "expected times of this step's kernels in " + cluster.stepProfile +
          ", got none");
  }
  cost.model = std::make_unique<MeasuredCost>(
      std::move(cost.model), std::move(table), std::move(measured));
  return std::move(cost);
}
