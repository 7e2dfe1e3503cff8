//===- AnalyticCost.h - Costs from a cluster file ---------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Kernels by a roofline whose two roofs depend on size; those with code for
// CUDA devices, where the file describes multiprocessors, by their launches,
// instructions and threads, too. Transfers by NCCL's model, rates by the
// contention that the file states.
//
// Whoever asks for a transfer has made sure that the cluster has its links:
// placeGroup() refuses groups that no link joins, and only a cluster with
// links.host can copy to the host.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_COST_ANALYTICCOST_H
#define FSDP_COST_ANALYTICCOST_H

#include "fsdp/Cost/Cluster.h"

namespace mlir::fsdp {

/// The link on which each queue's transfers travel; none where the queue is
/// compute or stays empty.
using QueueLinks = std::array<std::optional<Link>, kNumQueues>;

/// The links of a program whose all_gathers and reduce_scatters run in groups
/// like @shard and whose all_reduces in groups like @replicate.
QueueLinks getQueueLinks(const Cluster &cluster, const GroupPlacement &shard,
                         const GroupPlacement &replicate);

class AnalyticCost : public CostModel {
public:
  AnalyticCost(Cluster cluster, const QueueLinks &links);

  Time kernel(const KernelCost &kernel) const override;
  Time launch(const KernelCost &kernel) const override;
  KernelRoof roof(const KernelCost &kernel) const override;
  TransferCost transfer(const TransferKey &transfer) const override;
  TransferRoute route(const TransferKey &transfer) const override;
  bool ordersCollectives() const override;
  int rate(Queue queue, QueueMask active) const override;

  const Cluster &getCluster() const { return cluster; }

private:
  bool usesLaunches(const KernelCost &kernel) const;
  double getStartSeconds(const KernelCost &kernel) const;
  TransferCost copy(const TransferKey &transfer) const;

  Cluster cluster;
  /// [queue][active queues], filled once: rate() is asked in inner loops.
  std::array<std::array<uint16_t, 1u << kNumQueues>, kNumQueues> rates;
};

} // namespace mlir::fsdp

#endif // FSDP_COST_ANALYTICCOST_H
