//===- ReplaceInsideTest.cpp - Another value for one reader ---------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Passes/ReplaceInside.h"

#include "../Analysis/ModuleTest.h"

using namespace mlir;
using namespace mlir::fsdp;

namespace {

class ReplaceInside : public ModuleTest {};

TEST_F(ReplaceInside, ReachesRegionsOfOneOpOnly) {
  ModuleOp module = parse(R"(
func.func @f(%t: tensor<4xf32>, %i: index, %c: i1,
             %other: tensor<4xf32>) -> f32 {
  %outside = "test.op"(%t) : (tensor<4xf32>) -> f32
  %r = scf.if %c -> f32 {
    %x = "test.nested"() ({
      %y = tensor.extract %t[%i] : tensor<4xf32>
      "test.yield"(%y) : (f32) -> ()
    }) : () -> f32
    scf.yield %x : f32
  } else {
    scf.yield %outside : f32
  }
  return %r : f32
})");
  Block &block = (*module.getOps<func::FuncOp>().begin()).getBody().front();
  Operation *outside = &block.front(), *branch = outside->getNextNode();
  Operation *extract = nullptr;
  branch->walk([&](tensor::ExtractOp op) { extract = op; });
  ASSERT_TRUE(extract);
  replaceInside(branch, block.getArgument(0), block.getArgument(3));
  EXPECT_EQ(outside->getOperand(0), block.getArgument(0));
  EXPECT_EQ(extract->getOperand(0), block.getArgument(3));
}

} // namespace
