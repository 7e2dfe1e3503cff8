//===- StepArgumentsTest.cpp - What a step takes and replaces -------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Evaluator.h"

#include "fsdp/Analysis/Step/StepArguments.h"
#include "fsdp/Dialect/FSDP/IR/FSDP.h"

#include <gtest/gtest.h>

using namespace mlir;
using namespace mlir::fsdp;
using namespace mlir::fsdp::test;

TEST(StepArgumentsTest, ReplacementsAreFoundByWhatTheyAre) {
  TestContext context;
  // In another order than the arguments; equal names of different kinds; a
  // state of another flat parameter; an input and a frozen buffer that stay.
  auto module = context.parse(R"(
    fsdp.mesh @mesh [#fsdp.axis<"shard" = 1>]
    fsdp.flat_param @root on @mesh shard ["shard"] replicate [] state f32 gather f32 reduce f32
        numel 4 [<"w", tensor<4xf32> at 0>] {unit = ""}
    fsdp.flat_param @block on @mesh shard ["shard"] replicate [] state f32 gather f32 reduce f32
        numel 4 [<"v", tensor<4xf32> at 0>] {unit = "block"}
    fsdp.state @root.param parameter of @root : tensor<4xf32>
    fsdp.state @root.m optimizer "m" of @root : tensor<4xf32>
    fsdp.state @block.m optimizer "m" of @block : tensor<4xf32>
    fsdp.state @m buffer "m" : tensor<4xf32>
    fsdp.state @frozen buffer "frozen" : tensor<4xf32>
    fsdp.program @step(
        %shard: tensor<4xf32> {fsdp.state = @root.param},
        %m0: tensor<4xf32> {fsdp.state = @root.m},
        %m1: tensor<4xf32> {fsdp.state = @block.m},
        %b: tensor<4xf32> {fsdp.state = @m},
        %frozen: tensor<4xf32> {fsdp.state = @frozen},
        %x: tensor<4xf32> {fsdp.input = {name = "x"}})
        -> (tensor<4xf32>,
            tensor<4xf32> {fsdp.state = @m},
            tensor<4xf32> {fsdp.state = @block.m},
            tensor<4xf32> {fsdp.state = @root.param},
            tensor<4xf32> {fsdp.state = @root.m}) {
      fsdp.return %x, %b, %m1, %shard, %m0 : tensor<4xf32>, tensor<4xf32>,
             tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
    }
  )");
  ASSERT_TRUE(module);
  auto step = module->lookupSymbol<ProgramOp>("step");
  std::vector<std::pair<unsigned, unsigned>> found;
  for (auto [result, arg] : getReplacedArguments(step))
    found.push_back({result, arg.getArgNumber()});
  EXPECT_EQ(found, (std::vector<std::pair<unsigned, unsigned>>{
                       {1, 3}, {2, 2}, {3, 0}, {4, 1}}));
}

TEST(StepArgumentsTest, ReadersAreFoundBehindViews) {
  TestContext context;
  auto module = context.parse(R"(
    fsdp.program @step(%x: tensor<8xf32>, %y: tensor<8xf32>) -> tensor<2x4xf32> {
      %0 = tensor.expand_shape %x [[0, 1]] output_shape [2, 4]
          : tensor<8xf32> into tensor<2x4xf32>
      %1 = fsdp.launch @k(%x, %y)
          : (tensor<8xf32>, tensor<8xf32>) -> tensor<2x4xf32>
      %2 = fsdp.launch @m(%0) : (tensor<2x4xf32>) -> tensor<2x4xf32>
      fsdp.return %1 : tensor<2x4xf32>
    }
    func.func private @k(tensor<8xf32>, tensor<8xf32>, tensor<2x4xf32>)
        -> tensor<2x4xf32>
    func.func private @m(tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  )");
  ASSERT_TRUE(module);
  auto step = module->lookupSymbol<ProgramOp>("step");
  auto launches = llvm::to_vector(step.getBody().front().getOps<LaunchOp>());
  // %x is read by @m, through a reshape that stands before @k.
  EXPECT_TRUE(isReadAfter(step.getArgument(0), launches[0]));
  EXPECT_FALSE(isReadAfter(step.getArgument(0), launches[1]));
  // A launch does not read behind itself.
  EXPECT_FALSE(isReadAfter(step.getArgument(1), launches[0]));
  // The caller reads what is returned.
  EXPECT_TRUE(isReadAfter(launches[0].getResult(0), launches[1]));
}

TEST(StepArgumentsTest, EachGroupIsListedOnceInOrderOfUse) {
  TestContext context;
  auto module = context.parse(R"(
    fsdp.mesh @mesh [#fsdp.axis<"replicate" = 2>, #fsdp.axis<"shard" = 2>]
    fsdp.program @step(%x: tensor<8xf32>) -> tensor<8xf32> {
      %0 = fsdp.all_reduce %x on @mesh["shard"] : tensor<8xf32>
      %1 = fsdp.all_reduce %0 on @mesh["replicate"] : tensor<8xf32>
      %2 = fsdp.all_reduce %1 on @mesh["shard"] : tensor<8xf32>
      %3 = fsdp.all_reduce %2 on @mesh["replicate", "shard"] : tensor<8xf32>
      fsdp.return %3 : tensor<8xf32>
    }
  )");
  ASSERT_TRUE(module);
  SmallVector<ArrayAttr> groups = getGroups(*module);
  ASSERT_EQ(groups.size(), 3u);
  auto names = [](ArrayAttr group) {
    std::vector<std::string> result;
    for (Attribute name : group)
      result.push_back(cast<StringAttr>(name).str());
    return result;
  };
  EXPECT_EQ(names(groups[0]), std::vector<std::string>{"shard"});
  EXPECT_EQ(names(groups[1]), std::vector<std::string>{"replicate"});
  EXPECT_EQ(names(groups[2]), (std::vector<std::string>{"replicate", "shard"}));
}
