//===- Strategy.cpp - Meshes and sharding strategies ----------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Analysis/Step/Strategy.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <algorithm>
#include <cassert>
#include <limits>

using namespace mlir::fsdp;
using llvm::Expected;
using llvm::StringRef;

Expected<MeshShape> MeshShape::parse(StringRef text) {
  MeshShape mesh;
  bool hasShard = false;
  for (StringRef part : llvm::split(text, ',')) {
    auto [name, number] = part.split('=');
    int64_t size;
    if ((name != "shard" && name != "replicate") ||
        number.getAsInteger(10, size))
      return llvm::createStringError("expected a mesh such as shard=4 or "
                                     "shard=4,replicate=2, got '" +
                                     text + "'");
    if (size < 1 || size > std::numeric_limits<int32_t>::max())
      return llvm::createStringError(
          "expected 1 to " + llvm::Twine(std::numeric_limits<int32_t>::max()) +
          " ranks on axis " + name + ", got " + number);
    bool &seen = name == "shard" ? hasShard : mesh.hasReplicate;
    if (seen)
      return llvm::createStringError("expected axis " + name + " once, got '" +
                                     text + "'");
    seen = true;
    (name == "shard" ? mesh.shard : mesh.replicate) = size;
  }
  if (mesh.shard > std::numeric_limits<int32_t>::max() / mesh.replicate)
    return llvm::createStringError(
        "expected at most " + llvm::Twine(std::numeric_limits<int32_t>::max()) +
        " ranks in all, got '" + text + "'");
  return mesh;
}

llvm::SmallVector<MeshShape::Axis, 2> MeshShape::getShardAxes() const {
  if (cuts.empty())
    return {{"shard", shard}};
  llvm::SmallVector<Axis, 2> axes;
  int64_t left = shard;
  for (int64_t cut : llvm::reverse(cuts)) {
    axes.push_back({"shard_" + std::to_string(axes.size()), left / cut});
    left = cut;
  }
  axes.push_back({"shard_" + std::to_string(axes.size()), left});
  return axes;
}

llvm::SmallVector<MeshShape::Axis, 2> MeshShape::getAxes() const {
  llvm::SmallVector<Axis, 2> axes;
  if (hasReplicate)
    axes.push_back({"replicate", replicate});
  llvm::append_range(axes, getShardAxes());
  return axes;
}

void mlir::fsdp::addSecondaryShard(Sharding &sharding, const MeshShape &mesh,
                                   int64_t ranks) {
  llvm::SmallVector<MeshShape::Axis, 2> axes = mesh.getShardAxes();
  int64_t inside = 1;
  size_t count = 0;
  while (inside < ranks)
    inside *= axes[axes.size() - ++count].size;
  assert(inside == ranks && "the mesh is not cut for the secondary shard");
  auto &all = sharding.shardAxes;
  sharding.secondaryAxes.assign(all.end() - count, all.end());
  std::rotate(all.begin(), all.end() - count, all.end());
}

Expected<Strategy> mlir::fsdp::chooseStrategy(Strategy asked,
                                              const MeshShape &mesh) {
  if (asked == Strategy::Auto)
    return mesh.hasReplicate ? Strategy::HybridShard : Strategy::FullShard;
  bool isHybrid =
      asked == Strategy::HybridShard || asked == Strategy::HybridShardZero2;
  if (isHybrid && !mesh.hasReplicate)
    return llvm::createStringError(
        "expected a mesh with a replicate axis for " + getWord(asked) +
        ", got one with shard=" + llvm::Twine(mesh.shard) + " alone");
  return asked;
}

Sharding mlir::fsdp::getSharding(Strategy strategy, const MeshShape &mesh) {
  Sharding sharding;
  auto add = [&](bool replicateToo, auto &axes) {
    if (replicateToo && mesh.hasReplicate)
      axes.push_back("replicate");
    for (MeshShape::Axis &axis : mesh.getShardAxes())
      axes.push_back(axis.name);
  };
  switch (strategy) {
  case Strategy::Auto:
    llvm_unreachable("expected a strategy that was chosen");
  case Strategy::ShardGradOp:
    sharding.keep = true;
    [[fallthrough]];
  case Strategy::FullShard:
    add(/*replicateToo=*/true, sharding.shardAxes);
    break;
  case Strategy::NoShard:
    sharding.keep = true;
    add(/*replicateToo=*/true, sharding.replicateAxes);
    break;
  case Strategy::HybridShardZero2:
    sharding.keep = true;
    [[fallthrough]];
  case Strategy::HybridShard:
    add(/*replicateToo=*/false, sharding.shardAxes);
    sharding.replicateAxes.push_back("replicate");
    break;
  }
  return sharding;
}
