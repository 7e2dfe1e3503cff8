//===- Strategy.h - Meshes and sharding strategies --------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_ANALYSIS_STEP_STRATEGY_H
#define FSDP_ANALYSIS_STEP_STRATEGY_H

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

  static llvm::Expected<MeshShape> parse(llvm::StringRef text);
  int64_t getWorldSize() const { return shard * replicate; }
};

/// PyTorch's sharding strategies, under their names in lower case.
enum class Strategy {
  FullShard,
  ShardGradOp,
  NoShard,
  HybridShard,
  HybridShardZero2
};

/// Reads a strategy; "" and "auto" stand for full_shard, or hybrid_shard where
/// the mesh has a replicate axis. Refuses a hybrid strategy without one.
llvm::Expected<Strategy> parseStrategy(llvm::StringRef text,
                                       const MeshShape &mesh);
llvm::StringRef stringifyStrategy(Strategy strategy);

/// What a strategy means for a flat parameter.
struct Sharding {
  llvm::SmallVector<llvm::StringRef, 2> shardAxes, replicateAxes;
  /// Gathered once for forward and backward.
  bool keep = false;
};

/// full_shard on a mesh with a replicate axis shards over both axes.
Sharding getSharding(Strategy strategy, const MeshShape &mesh);

} // namespace mlir::fsdp

#endif // FSDP_ANALYSIS_STEP_STRATEGY_H
