//===- ScaledCost.cpp - Costs of a machine that is not --------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Analysis/Cost/ScaledCost.h"

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
  Time launch = std::min(time, factors.launch);
  return divide(time - launch,
                isProduct ? factors.products : factors.otherKernels);
}

TransferCost ScaledCost::transfer(const TransferKey &transfer) const {
  TransferCost cost = base->transfer(transfer);
  cost.work = divide(cost.work, factors.links[unsigned(cost.link)]);
  return cost;
}

int ScaledCost::rate(Queue queue, QueueMask active) const {
  return factors.noContention ? kFullRate : base->rate(queue, active);
}
