//===- ConstantCost.h - A cost model for tests ------------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_TEST_SCHEDULE_CONSTANTCOST_H
#define FSDP_TEST_SCHEDULE_CONSTANTCOST_H

#include "fsdp/Cost/CostModel.h"

namespace mlir::fsdp::sched::test {

/// Every kernel and every transfer takes the same time, and each further queue
/// that is active takes the same share of a queue's speed.
struct ConstantCost : CostModel {
  Time kernelTime = 1000;
  TransferCost transferCost = {0, 1000, Link::Intra};
  /// Parts of kFullRate that compute loses to active transfers, and that
  /// transfers lose to active compute.
  int computeLoss = 0, transferLoss = 0;

  Time kernel(const KernelCost &) const override { return kernelTime; }
  TransferCost transfer(const TransferKey &) const override {
    return transferCost;
  }
  int rate(Queue q, QueueMask active) const override {
    if ((active & ~maskOf(q)) == 0)
      return kFullRate;
    if (q == Queue::Compute)
      return kFullRate - computeLoss;
    return active & maskOf(Queue::Compute) ? kFullRate - transferLoss
                                           : kFullRate;
  }
};

/// As clusters have it: compute loses the same time again to each further link
/// that is busy. Copies have links of their own, all_reduces may.
struct CostByLink : ConstantCost {
  bool ownLinkForSums = false;

  int rate(Queue q, QueueMask active) const override {
    if (q != Queue::Compute)
      return ConstantCost::rate(q, active);
    QueueMask sums = maskOf(Queue::AllReduce);
    QueueMask main = maskOf(Queue::AllGather) | maskOf(Queue::Reduce);
    int links = bool(active & maskOf(Queue::D2H)) +
                bool(active & maskOf(Queue::H2D)) +
                bool(active & (ownLinkForSums ? main : main | sums)) +
                (ownLinkForSums && active & sums);
    int rest = kFullRate - computeLoss;
    return kFullRate * rest / (rest + links * computeLoss);
  }
};

} // namespace mlir::fsdp::sched::test

#endif // FSDP_TEST_SCHEDULE_CONSTANTCOST_H
