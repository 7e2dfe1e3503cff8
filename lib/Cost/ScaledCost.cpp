//===- ScaledCost.cpp - Costs of a machine that is not --------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Cost/ScaledCost.h"
#include "fsdp/Cost/NcclModel.h"

#include <algorithm>

using namespace mlir::fsdp;

static Time divide(Time time, double factor) {
  return factor == 1 ? time : Time(double(time) / factor);
}

Time ScaledCost::kernel(const KernelCost &kernel) const {
  bool isProduct = kernel.kind == KernelKind::Matmul ||
                   kernel.kind == KernelKind::Attention ||
                   kernel.kind == KernelKind::AttentionBackward;
  Time time = base->kernel(kernel);
  Time launch = std::min(time, base->launch(kernel));
  return (factors.noLaunch ? 0 : launch) +
         divide(time - launch,
                isProduct ? factors.products : factors.otherKernels);
}

Time ScaledCost::launch(const KernelCost &kernel) const {
  return factors.noLaunch ? 0 : base->launch(kernel);
}

static void multiplyBandwidth(Cluster &cluster, Link link, double factor) {
  switch (link) {
  case Link::Intra:
    cluster.intra->bandwidth *= factor;
    // Seen on this link, not a limit of NCCL's.
    if (cluster.intra->nvls)
      cluster.intra->nvls->maxBusBandwidth *= factor;
    return;
  case Link::Inter:
    cluster.inter->bandwidth *= factor;
    return;
  case Link::DeviceToHost:
  case Link::HostToDevice:
    cluster.host->bandwidth *= factor;
    return;
  }
}

Cluster mlir::fsdp::makeLinkFaster(Cluster cluster, Link link, double factor) {
  Cluster before = cluster;
  multiplyBandwidth(cluster, link, factor);
  for (MeasuredCollective &measured : cluster.collectives) {
    GroupPlacement group;
    group.nodes = measured.nodes;
    group.ranksPerNode = measured.ranksPerNode;
    group.ranks = measured.nodes * measured.ranksPerNode;
    group.neighbours = measured.neighbours;
    // A table may be of groups whose links the file leaves out.
    if ((group.nodes > 1 && !cluster.inter) ||
        (group.ranksPerNode > 1 && !cluster.intra))
      continue;
    measured.seconds = measured.seconds.withFasterRate(
        getBusBandwidth(cluster, group) / getBusBandwidth(before, group));
  }
  return cluster;
}

int ScaledCost::rate(Queue queue, QueueMask active) const {
  return factors.freeCompute && queue == Queue::Compute
             ? kFullRate
             : base->rate(queue, active);
}
