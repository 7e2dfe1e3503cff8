//===- Strategy.h - Meshes and sharding strategies --------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_ANALYSIS_STEP_STRATEGY_H
#define FSDP_ANALYSIS_STEP_STRATEGY_H

#include "fsdp/Support/OptionWords.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <cstdint>
#include <string>

namespace mlir::fsdp {

/// A mesh as users write it: "shard=4" or "shard=4,replicate=2", in any order.
struct MeshShape {
  int64_t shard = 1;
  /// Set where the mesh was given a replicate axis, even of one rank.
  bool hasReplicate = false;
  int64_t replicate = 1;
  /// Ranks of the secondary shards that the shard axis is cut for: increasing,
  /// each a divisor of the next one and the last one of `shard`, between them.
  llvm::SmallVector<int64_t, 1> cuts;

  static llvm::Expected<MeshShape> parse(llvm::StringRef text);
  int64_t getWorldSize() const { return shard * replicate; }

  struct Axis {
    std::string name;
    int64_t size;
  };
  /// Axes of shards, outermost first: `shard`, or, where it is cut, `shard_0`,
  /// `shard_1`, ..: with shard=16 and cuts of 2 and 8 these have 2, 4 and 2
  /// ranks, so that the last two of them are 8 neighbours.
  llvm::SmallVector<Axis, 2> getShardAxes() const;
  /// All axes, outermost first.
  llvm::SmallVector<Axis, 2> getAxes() const;
};

/// PyTorch's sharding strategies, under their names in lower case.
enum class Strategy {
  /// HybridShard where the mesh has a replicate axis, else FullShard.
  Auto,
  FullShard,
  ShardGradOp,
  NoShard,
  HybridShard,
  HybridShardZero2
};

FSDP_WORDS(Strategy,
           {E::Auto, "auto",
            "full_shard, or hybrid_shard on a mesh with a replicate axis "
            "(default)"},
           {E::FullShard, "full_shard", "all of them, over all ranks"},
           {E::ShardGradOp, "shard_grad_op",
            "full_shard, but gathered once for forward and backward"},
           {E::NoShard, "no_shard", "none of them"},
           {E::HybridShard, "hybrid_shard",
            "full_shard over one axis, replicated over the other"},
           {E::HybridShardZero2, "hybrid_shard_zero2",
            "shard_grad_op over one axis, replicated over the other"})

/// What @asked is on @mesh, never Auto. Refuses a hybrid strategy without a
/// replicate axis.
llvm::Expected<Strategy> chooseStrategy(Strategy asked, const MeshShape &mesh);

/// What a strategy means for a flat parameter.
struct Sharding {
  llvm::SmallVector<std::string, 2> shardAxes, replicateAxes;
  /// Those of the shard axes, which begin with them, that a secondary shard is
  /// gathered along.
  llvm::SmallVector<std::string, 2> secondaryAxes;
  /// Gathered once for forward and backward.
  bool keep = false;
  /// Gathered once for all micro-batches of a step.
  bool persistent = false;
};

/// Gives @sharding, which cuts over all shard axes of @mesh, a secondary shard
/// over @ranks neighbours, for which @mesh is cut.
void addSecondaryShard(Sharding &sharding, const MeshShape &mesh,
                       int64_t ranks);

/// Of a strategy that was chosen. full_shard on a mesh with a replicate axis
/// shards over both axes.
Sharding getSharding(Strategy strategy, const MeshShape &mesh);

} // namespace mlir::fsdp

#endif // FSDP_ANALYSIS_STEP_STRATEGY_H
