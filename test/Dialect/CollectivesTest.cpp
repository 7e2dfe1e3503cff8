//===- CollectivesTest.cpp - The interface of collectives -----------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "DialectTest.h"

#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;
using namespace mlir::fsdp;

namespace {

class CollectivesTest : public DialectTest {
protected:
  /// The collective, on a mesh of 2 x 4 ranks.
  CollectiveOpInterface parseOp(StringRef argument, StringRef op) {
    parse(("fsdp.mesh @mesh [#fsdp.axis<\"replicate\" = 2>, "
           "#fsdp.axis<\"shard\" = 4>]\n"
           "func.func @f(%a: " +
           argument + ") {\n %r = " + op + "\n return\n}")
              .str());
    return get<CollectiveOpInterface>();
  }
};

TEST_F(CollectivesTest, AllGatherReceivesWhatOthersHold) {
  auto op = parseOp("tensor<6x2xf32>", "fsdp.all_gather %a on @mesh[\"shard\"] "
                                       ": tensor<6x2xf32> -> tensor<24x2xf32>");
  EXPECT_EQ(op.getTrafficBytes(4), 3 * 12 * 4);
  EXPECT_EQ(op.getTrafficBytes(1), 0);
  EXPECT_EQ(op.getDivisor(), 1);
}

TEST_F(CollectivesTest, ReduceScatterReceivesItsPartFromOthers) {
  auto op =
      parseOp("tensor<24xbf16>", "fsdp.reduce_scatter %a on @mesh[\"shard\"] : "
                                 "tensor<24xbf16> -> tensor<6xbf16>");
  EXPECT_EQ(op.getTrafficBytes(4), 3 * 6 * 2);
  EXPECT_EQ(op.getDivisor(), 1);
}

TEST_F(CollectivesTest, AllReduceCountsTwoRoundsOfRoundedParts) {
  auto op = parseOp("tensor<10xf32>", "fsdp.all_reduce %a on @mesh[\"shard\"] "
                                      "divisor 8 : tensor<10xf32>");
  EXPECT_EQ(op.getTrafficBytes(4), 2 * 3 * 3 * 4);
  EXPECT_EQ(op.getTrafficBytes(1), 0);
  // It still divides.
  EXPECT_EQ(op.getDivisor(), 8);
}

TEST_F(CollectivesTest, AllToAllReceivesAPartFromEachOther) {
  auto op =
      parseOp("tensor<8x3xbf16>", "fsdp.all_to_all %a on @mesh[\"shard\"] "
                                  "divisor 8 : tensor<8x3xbf16>");
  EXPECT_EQ(op.getCount(4), 2 * 3);
  EXPECT_EQ(op.getTrafficBytes(4), 3 * 2 * 3 * 2);
  EXPECT_EQ(op.getTrafficBytes(1), 0);
  EXPECT_EQ(op.getDivisor(), 8);
  EXPECT_TRUE(isReduction(op));
}

TEST_F(CollectivesTest, CountsAreOfOnePart) {
  auto gather =
      parseOp("tensor<6xf32>", "fsdp.all_gather %a on @mesh[\"shard\"] "
                               ": tensor<6xf32> -> tensor<24xf32>");
  EXPECT_EQ(gather.getCount(4), 6);
  EXPECT_FALSE(isReduction(gather));
  auto scatter =
      parseOp("tensor<24xf32>", "fsdp.reduce_scatter %a on @mesh[\"shard\"] : "
                                "tensor<24xf32> -> tensor<6xf32>");
  EXPECT_EQ(scatter.getCount(4), 6);
  EXPECT_TRUE(isReduction(scatter));
  auto sum =
      parseOp("tensor<10xf32>", "fsdp.all_reduce %a on @mesh[\"shard\"] : "
                                "tensor<10xf32>");
  EXPECT_EQ(sum.getCount(4), 10);
  EXPECT_TRUE(isReduction(sum));
}

TEST_F(CollectivesTest, AxesCanBeReplaced) {
  auto op = parseOp("tensor<10xf32>",
                    "fsdp.all_reduce %a on @mesh[\"replicate\", \"shard\"] : "
                    "tensor<10xf32>");
  EXPECT_EQ(op.getMeshAttr().getValue(), "mesh");
  EXPECT_EQ(op.getInput(), op->getOperand(0));
  EXPECT_EQ(op.getResult(), op->getResult(0));
  auto axes = Builder(&context).getStrArrayAttr({"shard"});
  op.setAxesAttr(axes);
  EXPECT_EQ(op.getAxesAttr(), axes);
  EXPECT_TRUE(succeeded(verify(*module)));
}

/// Removed where unused, on every rank alike; never speculated, or only some
/// ranks would take part.
TEST_F(CollectivesTest, NoEffectsAndNoSpeculation) {
  for (StringRef text :
       {"fsdp.all_gather %a on @mesh[\"shard\"] : tensor<8xf32> -> "
        "tensor<32xf32>",
        "fsdp.reduce_scatter %a on @mesh[\"shard\"] : tensor<8xf32> -> "
        "tensor<2xf32>",
        "fsdp.all_reduce %a on @mesh[\"shard\"] : tensor<8xf32>",
        "fsdp.all_to_all %a on @mesh[\"shard\"] : tensor<8xf32>"}) {
    auto op = parseOp("tensor<8xf32>", text);
    EXPECT_TRUE(isMemoryEffectFree(op)) << text.str();
    EXPECT_TRUE(isOpTriviallyDead(op)) << text.str();
    EXPECT_FALSE(isSpeculatable(op)) << text.str();
  }
}

TEST_F(CollectivesTest, LaunchSaysWhatIsWrittenOver) {
  parse(R"mlir(
func.func private @k(tensor<4xf32>, tensor<4xf32>, tensor<4xf32>)
    -> (tensor<4xf32>, tensor<4xf32>)
func.func @f(%a: tensor<4xf32>) {
  %r:2 = fsdp.launch @k(%a) tied [-1, 0] : (tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  return
})mlir");
  auto launch = get<LaunchOp>();
  EXPECT_EQ(launch.getTiedInput(0), -1);
  EXPECT_EQ(launch.getTiedInput(1), 0);
  launch.removeTiedAttr();
  EXPECT_EQ(launch.getTiedInput(1), -1);
}

TEST_F(CollectivesTest, EffectsOfGatheringAndFreeing) {
  parse(R"mlir(
fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]
fsdp.flat_param @h0 on @mesh shard ["shard"] replicate []
    state f32 gather f32 reduce f32 numel 8 [<"w", tensor<8xf32> at 0>] {trainable, unit = ""}
func.func @f(%s: !fsdp.sharded<@h0, f32>, %ok: tensor<i1>) {
  %w = fsdp.unshard %s for forward : <@h0, f32> -> <@h0, f32>
  fsdp.reshard %w : <@h0, f32>
  fsdp.check %ok, "so it is" : tensor<i1>
  return
})mlir");
  auto unshard = get<UnshardOp>();
  EXPECT_TRUE(hasEffect<MemoryEffects::Allocate>(unshard, unshard.getResult()));
  EXPECT_FALSE(isMemoryEffectFree(unshard));
  auto reshard = get<ReshardOp>();
  EXPECT_TRUE(hasEffect<MemoryEffects::Free>(reshard, reshard.getUnsharded()));
  EXPECT_FALSE(isOpTriviallyDead(reshard));
  EXPECT_FALSE(isOpTriviallyDead(get<CheckOp>()));
}

} // namespace
