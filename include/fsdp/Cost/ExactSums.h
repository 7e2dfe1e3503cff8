//===- ExactSums.h - Sums over ranks in a fixed tree ------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// How long the runtime's own sums take (--reduction exact): exchanges of sends
// and receives, and kernels that add up, as include/fsdp-rt/reductions.h plans
// them.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_COST_EXACTSUMS_H
#define FSDP_COST_EXACTSUMS_H

#include "fsdp/Cost/Cluster.h"

namespace mlir::fsdp {

constexpr llvm::StringLiteral kExactAlgorithm = "exact",
                              kTwoLevels = "two levels",
                              kOneLevel = "one level";

/// Collectives that add up, issued together.
struct ExactSum {
  double latencySeconds = 0;
  /// The whole.
  double seconds = 0;
  /// Bytes that all ranks of the group send to other nodes, and what a ring of
  /// NCCL would.
  double betweenNodes = 0, ringBetweenNodes = 0;
};

/// Whether ranks of a node add up first.
bool hasTwoLevels(const GroupPlacement &group);

/// @transfer has partialScales, and more than one rank that @cluster has links
/// between.
ExactSum getExactSum(const Cluster &cluster, const TransferKey &transfer);

} // namespace mlir::fsdp

#endif // FSDP_COST_EXACTSUMS_H
