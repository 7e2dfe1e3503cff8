//===- ScaledCostTest.cpp - Parts of a cost model made faster -------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Analysis/Cost/ScaledCost.h"

#include "gtest/gtest.h"

using namespace mlir::fsdp;

namespace {
class Fixed : public CostModel {
public:
  Time kernel(const KernelCost &) const override { return 1000; }
  TransferCost transfer(const TransferKey &key) const override {
    return {70, 600, key.group.nodes > 1 ? Link::Inter : Link::Intra};
  }
  int rate(Queue, QueueMask) const override { return 512; }
};
} // namespace

static ScaledCost make(const CostFactors &factors) {
  return ScaledCost(std::make_unique<Fixed>(), factors);
}

TEST(ScaledCost, changesNothingByItself) {
  ScaledCost cost = make({});
  EXPECT_EQ(cost.kernel(makeMatmul(CostDtype::F32, 8, 8, 8)), 1000);
  EXPECT_EQ(cost.transfer({}).latency, 70);
  EXPECT_EQ(cost.transfer({}).work, 600);
  EXPECT_EQ(cost.rate(Queue::Compute, 1), 512);
}

TEST(ScaledCost, changesOnePartAtATime) {
  KernelCost product = makeMatmul(CostDtype::F32, 8, 8, 8), other;
  CostFactors factors;
  factors.products = 2;
  EXPECT_EQ(make(factors).kernel(product), 500);
  EXPECT_EQ(make(factors).kernel(other), 1000);

  factors = {};
  factors.otherKernels = 4;
  EXPECT_EQ(make(factors).kernel(product), 1000);
  EXPECT_EQ(make(factors).kernel(other), 250);

  // Never below nothing.
  factors = {};
  factors.launch = 300;
  EXPECT_EQ(make(factors).kernel(other), 700);
  factors.launch = 3000;
  EXPECT_EQ(make(factors).kernel(other), 0);

  factors = {};
  factors.links[unsigned(Link::Inter)] = 2;
  TransferKey far;
  far.group.nodes = 2;
  EXPECT_EQ(make(factors).transfer(far).work, 300);
  EXPECT_EQ(make(factors).transfer(far).latency, 70);
  EXPECT_EQ(make(factors).transfer({}).work, 600);

  factors = {};
  factors.noContention = true;
  EXPECT_EQ(make(factors).rate(Queue::Compute, 1), kFullRate);
}
