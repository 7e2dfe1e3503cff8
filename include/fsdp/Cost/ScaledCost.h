//===- ScaledCost.h - Costs of a machine that is not ------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Another model's times, with parts of them taken as faster: what a step would
// gain from faster products, from launches that cost nothing, and so on. It
// works on times, so it says the same of computed and of measured ones.
//
// Links are made faster in the cluster instead: what a collective gains from
// one depends on the others that it crosses.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_COST_SCALEDCOST_H
#define FSDP_COST_SCALEDCOST_H

#include "fsdp/Cost/Cluster.h"

#include <memory>

namespace mlir::fsdp {

/// How much faster each part is; 1 is as it was.
struct CostFactors {
  /// Of products and attention, and of all other kernels, once they run.
  double products = 1, otherKernels = 1;
  /// Kernels take nothing to start.
  bool noLaunch = false;
  /// Nothing slows compute down. Transfers still slow each other.
  bool freeCompute = false;
};

/// @cluster with @factor times the bandwidth on @link, which it has. Latencies
/// and what limits a collective elsewhere stay. A measured collective gains, of
/// all but its latency, what the narrowest link that it crosses gains.
Cluster makeLinkFaster(Cluster cluster, Link link, double factor);

class ScaledCost : public CostModel {
public:
  ScaledCost(std::unique_ptr<CostModel> base, const CostFactors &factors)
      : base(std::move(base)), factors(factors) {}

  Time kernel(const KernelCost &kernel) const override;
  Time launch(const KernelCost &kernel) const override;
  /// What limits the kernel of the machine that there is.
  KernelRoof roof(const KernelCost &kernel) const override {
    return base->roof(kernel);
  }
  TransferCost transfer(const TransferKey &transfer) const override {
    return base->transfer(transfer);
  }
  TransferRoute route(const TransferKey &transfer) const override {
    return base->route(transfer);
  }
  bool ordersCollectives() const override { return base->ordersCollectives(); }
  int rate(Queue queue, QueueMask active) const override;

private:
  std::unique_ptr<CostModel> base;
  CostFactors factors;
};

} // namespace mlir::fsdp

#endif // FSDP_COST_SCALEDCOST_H
