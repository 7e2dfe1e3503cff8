//===- DistributionTest.cpp - What ranks hold of one value ----------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Analysis/Step/Distribution.h"
#include "ModuleTest.h"

using namespace mlir;
using namespace mlir::fsdp;
using Fault = Distribution::Fault;

namespace {
constexpr Axes kAxis = 1, kOther = 2;

Distribution shard(Axes axes = kAxis) {
  Distribution result;
  result.shard = axes;
  return result;
}
Distribution partial(Axes axes = kAxis) {
  Distribution result;
  result.partial = axes;
  return result;
}
Distribution batch(Axes axes = kAxis) {
  Distribution result;
  result.batch = axes;
  return result;
}
Distribution sum(int64_t ranks, int64_t divisor) {
  Distribution result;
  result.sum = {ranks, divisor};
  return result;
}
Distribution zero() {
  Distribution result;
  result.isZero = true;
  return result;
}

/// The axes and the kind of what is wrong in it, in both orders; checks that
/// they are the same.
std::optional<std::pair<Fault::Kind, Axes>>
getFault(Distribution (*combine)(const Distribution &, const Distribution &),
         const Distribution &a, const Distribution &b) {
  auto ab = combine(a, b).fault, ba = combine(b, a).fault;
  EXPECT_EQ(ab.has_value(), ba.has_value());
  if (!ab || !ba)
    return std::nullopt;
  EXPECT_EQ(ab->kind, ba->kind);
  EXPECT_EQ(ab->axes, ba->axes);
  EXPECT_TRUE(ab->sum == ba->sum);
  EXPECT_TRUE(ab->otherSum == ba->otherSum);
  return std::make_pair(ab->kind, ab->axes);
}
} // namespace

TEST(Distribution, sumsThatAreNoMeansJoinInAnyOrder) {
  const Distribution half = sum(4, 2), eighth = sum(4, 8), mean = sum(4, 4);
  for (auto &order : {std::pair(half, eighth), std::pair(eighth, half)}) {
    Distribution both = Distribution::join({order.first, order.second});
    EXPECT_TRUE(both.sum == half.sum);
    ASSERT_TRUE(both.fault);
    EXPECT_EQ(both.fault->kind, Fault::Sums);
    EXPECT_TRUE(both.fault->sum == half.sum);
    EXPECT_TRUE(both.fault->otherSum == eighth.sum);
  }
  for (auto &order : {std::pair(half, mean), std::pair(mean, half)}) {
    Distribution both = Distribution::join({order.first, order.second});
    EXPECT_TRUE(both.sum == half.sum);
    EXPECT_FALSE(both.fault);
  }
  EXPECT_FALSE(Distribution::join({half, half}).fault);
}

TEST(Distribution, partialSumsMeetPartialSums) {
  auto add = &Distribution::add;
  using Result = std::pair<Fault::Kind, Axes>;
  EXPECT_FALSE(getFault(add, partial(), partial()));
  EXPECT_FALSE(getFault(add, partial(), zero()));
  EXPECT_EQ(getFault(add, partial(), Distribution()),
            Result(Fault::Mixed, kAxis));
  EXPECT_EQ(getFault(add, partial(), shard()), Result(Fault::Mixed, kAxis));
  EXPECT_EQ(getFault(add, partial(kAxis | kOther), partial()),
            Result(Fault::Mixed, kOther));
  // Of these nobody knows.
  EXPECT_FALSE(getFault(add, partial(), batch()));
  EXPECT_FALSE(getFault(add, partial(), Distribution::getUnknown(shard())));
  // Shards are elements: what all ranks share goes with them.
  EXPECT_FALSE(getFault(add, shard(), Distribution()));
}

TEST(Distribution, partialSumsAreScaled) {
  auto multiply = &Distribution::multiply;
  using Result = std::pair<Fault::Kind, Axes>;
  EXPECT_FALSE(getFault(multiply, partial(), Distribution()));
  EXPECT_FALSE(getFault(multiply, partial(), batch()));
  EXPECT_EQ(getFault(multiply, partial(), shard()),
            Result(Fault::Mixed, kAxis));
  EXPECT_EQ(getFault(multiply, partial(), partial()),
            Result(Fault::NotLinear, kAxis));
  EXPECT_FALSE(Distribution::apply(shard()).fault);
  ASSERT_TRUE(Distribution::apply(partial()).fault);
  EXPECT_EQ(Distribution::apply(partial()).fault->kind, Fault::NotLinear);
}

namespace {
class KernelDistribution : public ModuleTest {
protected:
  SmallVector<Distribution> run(llvm::StringRef text,
                                ArrayRef<Distribution> inputs,
                                ArrayRef<int64_t> tied = {}) {
    return distribute(*parse(text).getOps<func::FuncOp>().begin(), inputs,
                      tied);
  }
};

/// Adds up squares of its first input, onto what the second one has.
constexpr const char *kSquares = R"(
  func.func @k(%g: tensor<8xf32>, %so_far: tensor<f32>, %w: tensor<8xf32>, %out: tensor<f32>, %new: tensor<8xf32>)
      -> (tensor<f32>, tensor<8xf32>) {
    %s = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> ()>], iterator_types = ["reduction"]}
        ins(%g : tensor<8xf32>) outs(%out : tensor<f32>) {
    ^bb0(%x: f32, %o: f32):
      %q = arith.mulf %x, %x : f32
      %n = arith.addf %q, %o : f32
      linalg.yield %n : f32
    } -> tensor<f32>
    %u = arith.subf %w, %g : tensor<8xf32>
    return %s, %u : tensor<f32>, tensor<8xf32>
  })";
} // namespace

TEST_F(KernelDistribution, resultsAreOfWhatTheyAreComputedOf) {
  // The sum goes over the second input.
  auto r = run(kSquares, {shard(), partial(), shard()}, {1, 2});
  EXPECT_EQ(r[0].getPartial(), kAxis);
  EXPECT_FALSE(r[0].fault);
  EXPECT_TRUE(r[0].inputs.test(0) && r[0].inputs.test(1));
  EXPECT_FALSE(r[0].inputs.test(2));
  EXPECT_EQ(r[1].getShard(), kAxis);
  EXPECT_FALSE(r[1].inputs.test(1));
}

TEST_F(KernelDistribution, sumsGoOnWhereOthersAreComplete) {
  auto r = run(kSquares, {shard(), Distribution(), shard()}, {1, 2});
  ASSERT_TRUE(r[0].fault);
  EXPECT_EQ(r[0].fault->kind, Fault::Mixed);
  EXPECT_EQ(r[0].fault->partial.find_first(), 0);
  EXPECT_EQ(r[0].fault->other.find_first(), 1);
  EXPECT_FALSE(r[1].fault);
}

TEST_F(KernelDistribution, whatNobodyKnowsIsAnything) {
  auto r = run(R"(
    func.func @k(%g: tensor<8xf32>, %x: tensor<8xf32>, %out: tensor<8xf32>, %none: tensor<f32>) -> (tensor<8xf32>, tensor<f32>) {
      %y = "test.op"(%g) ({
        "test.capture"(%x) : (tensor<8xf32>) -> ()
      }) : (tensor<8xf32>) -> tensor<8xf32>
      %c = arith.constant dense<0.0> : tensor<f32>
      return %y, %c : tensor<8xf32>, tensor<f32>
    })",
               {shard(), batch(kOther)});
  EXPECT_EQ(r[0].shard, kAxis);
  EXPECT_EQ(r[0].partial, kAxis);
  EXPECT_EQ(r[0].batch, kOther);
  EXPECT_EQ(r[1].getDiffering(), Axes(0));
  EXPECT_TRUE(r[1].isZero);
  // A kernel that is only declared.
  r = run("func.func private @k(tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>",
          {shard()});
  EXPECT_EQ(r[0].shard & r[0].partial, kAxis);
}
