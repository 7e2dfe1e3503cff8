//===- StrategyTest.cpp - Meshes and sharding strategies ------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Analysis/Step/Strategy.h"

#include "TestSupport.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir::fsdp;

namespace {

MeshShape makeMesh(llvm::StringRef text) {
  return llvm::cantFail(MeshShape::parse(text));
}

TEST(MeshShape, ReadsAxesInAnyOrder) {
  MeshShape line = makeMesh("shard=4");
  EXPECT_EQ(line.shard, 4);
  EXPECT_FALSE(line.hasReplicate);
  EXPECT_EQ(line.replicate, 1);
  EXPECT_EQ(line.getWorldSize(), 4);
  for (llvm::StringRef text : {"shard=4,replicate=3", "replicate=3,shard=4"}) {
    MeshShape grid = makeMesh(text);
    EXPECT_EQ(grid.shard, 4);
    EXPECT_TRUE(grid.hasReplicate);
    EXPECT_EQ(grid.replicate, 3);
    EXPECT_EQ(grid.getWorldSize(), 12);
  }
}

TEST(MeshShape, KeepsAReplicateAxisOfOneRank) {
  EXPECT_TRUE(makeMesh("shard=4,replicate=1").hasReplicate);
}

TEST(MeshShape, ReplicateAloneShardsOverOneRank) {
  MeshShape mesh = makeMesh("replicate=2");
  EXPECT_EQ(mesh.shard, 1);
  EXPECT_EQ(mesh.getWorldSize(), 2);
}

TEST(MeshShape, TakesTheLargestCountAndNothingAbove) {
  EXPECT_EQ(makeMesh("shard=2147483647").getWorldSize(), 2147483647);
  EXPECT_EQ(getError(MeshShape::parse("shard=2147483648")),
            "expected 1 to 2147483647 ranks on axis shard, got 2147483648");
  EXPECT_EQ(makeMesh("shard=32768,replicate=65535").getWorldSize(), 2147450880);
  EXPECT_EQ(getError(MeshShape::parse("shard=32768,replicate=65536")),
            "expected at most 2147483647 ranks in all, got "
            "'shard=32768,replicate=65536'");
}

TEST(MeshShape, RefusesCountsBelowOne) {
  EXPECT_EQ(getError(MeshShape::parse("shard=0")),
            "expected 1 to 2147483647 ranks on axis shard, got 0");
  EXPECT_EQ(getError(MeshShape::parse("shard=2,replicate=-1")),
            "expected 1 to 2147483647 ranks on axis replicate, got -1");
}

TEST(MeshShape, RefusesWhatIsNoMesh) {
  for (llvm::StringRef text :
       {"", ",", "4", "shard", "shard=", "=4", "shard=four", "shard=2.5",
        "shard=2 ", " shard=2", "shard=2,", "shard=2;replicate=2", "Shard=2",
        "tensor=2", "shard=2,tensor=2", "shard=99999999999999999999"})
    EXPECT_EQ(getError(MeshShape::parse(text)),
              "expected a mesh such as shard=4 or shard=4,replicate=2, got '" +
                  text.str() + "'");
  EXPECT_EQ(getError(MeshShape::parse("shard=2,shard=2")),
            "expected axis shard once, got 'shard=2,shard=2'");
  EXPECT_EQ(getError(MeshShape::parse("replicate=1,replicate=1")),
            "expected axis replicate once, got 'replicate=1,replicate=1'");
}

TEST(Strategy, DefaultFollowsTheMesh) {
  auto choose = [](llvm::StringRef mesh) {
    return llvm::cantFail(chooseStrategy(Strategy::Auto, makeMesh(mesh)));
  };
  EXPECT_EQ(choose("shard=2"), Strategy::FullShard);
  EXPECT_EQ(choose("shard=2,replicate=1"), Strategy::HybridShard);
}

TEST(Strategy, HybridNeedsAReplicateAxis) {
  for (const OptionWord<Strategy> &it : getWords<Strategy>()) {
    if (it.value == Strategy::Auto)
      continue;
    EXPECT_EQ(llvm::cantFail(
                  chooseStrategy(it.value, makeMesh("shard=8,replicate=1"))),
              it.value);
    bool isHybrid = it.word.starts_with("hybrid_");
    EXPECT_EQ(getError(chooseStrategy(it.value, makeMesh("shard=8"))),
              isHybrid ? "expected a mesh with a replicate axis for " +
                             it.word.str() + ", got one with shard=8 alone"
                       : "");
  }
}

/// Axes of a sharding as text: "shard|replicate|keep".
std::string describe(Strategy strategy, llvm::StringRef mesh) {
  Sharding sharding = getSharding(strategy, makeMesh(mesh));
  return llvm::join(sharding.shardAxes, ",") + "|" +
         llvm::join(sharding.replicateAxes, ",") +
         (sharding.keep ? "|keep" : "|");
}

TEST(Sharding, OnOneAxis) {
  EXPECT_EQ(describe(Strategy::FullShard, "shard=4"), "shard||");
  EXPECT_EQ(describe(Strategy::ShardGradOp, "shard=4"), "shard||keep");
  EXPECT_EQ(describe(Strategy::NoShard, "shard=4"), "|shard|keep");
}

TEST(Sharding, OnTwoAxesOutermostFirst) {
  llvm::StringRef mesh = "shard=4,replicate=2";
  EXPECT_EQ(describe(Strategy::FullShard, mesh), "replicate,shard||");
  EXPECT_EQ(describe(Strategy::ShardGradOp, mesh), "replicate,shard||keep");
  EXPECT_EQ(describe(Strategy::NoShard, mesh), "|replicate,shard|keep");
  EXPECT_EQ(describe(Strategy::HybridShard, mesh), "shard|replicate|");
  EXPECT_EQ(describe(Strategy::HybridShardZero2, mesh), "shard|replicate|keep");
}

TEST(Sharding, CutsTheShardAxisForSecondaryShards) {
  MeshShape mesh = makeMesh("shard=16,replicate=3");
  mesh.cuts = {2, 8};
  std::string text;
  for (const MeshShape::Axis &axis : mesh.getAxes())
    text += axis.name + "=" + std::to_string(axis.size) + " ";
  EXPECT_EQ(text, "replicate=3 shard_0=2 shard_1=4 shard_2=2 ");
  auto describeSecondary = [&](Strategy strategy, int64_t ranks) {
    Sharding sharding = getSharding(strategy, mesh);
    addSecondaryShard(sharding, mesh, ranks);
    return llvm::join(sharding.shardAxes, ",") + "|" +
           llvm::join(sharding.secondaryAxes, ",");
  };
  EXPECT_EQ(describeSecondary(Strategy::HybridShard, 8),
            "shard_1,shard_2,shard_0|shard_1,shard_2");
  EXPECT_EQ(describeSecondary(Strategy::FullShard, 2),
            "shard_2,replicate,shard_0,shard_1|shard_2");
  EXPECT_EQ(describeSecondary(Strategy::FullShard, 16),
            "shard_0,shard_1,shard_2,replicate|shard_0,shard_1,shard_2");
}

} // namespace
