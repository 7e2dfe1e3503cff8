//===- ExactSums.cpp - Sums over ranks in a fixed tree --------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Cost/ExactSums.h"

#include "fsdp-rt/reductions.h"
#include "fsdp/Cost/NcclModel.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

#include <cassert>

using namespace llvm;
using namespace mlir::fsdp;
using ::fsdp::rt::SumPlacement;
using ::fsdp::rt::SumPlan;

bool mlir::fsdp::hasTwoLevels(const GroupPlacement &group) {
  return group.unevenness == 0 &&
         ::fsdp::rt::hasTwoLevels(group.nodes, group.ranksPerNode);
}

namespace {
/// Bytes of all parts of a bucket. Each exchange is one between all pairs of
/// some ranks: the bytes are those that a rank has for all of them, itself
/// included.
struct Volumes {
  int64_t atoms = 0;
  int64_t elements = 0, partials = 0;
  int64_t resultsBetween = 0, results = 0;
  /// Read and written by the kernels that add up.
  double summed = 0;
  int64_t launches = 0;
  double betweenNodes = 0, ringBetweenNodes = 0;
};
} // namespace

static void addVolumes(Volumes &all, TransferKind kind,
                       const GroupPlacement &group, int64_t bytes,
                       int64_t scale) {
  bool isAllReduce = kind == TransferKind::AllReduce;
  SumPlacement placement = {group.ranks, hasTwoLevels(group) ? group.nodes : 1};
  // Counted in bytes: an element has one.
  SumPlan plan = ::fsdp::rt::planSum(
      isAllReduce,
      isAllReduce ? bytes : int64_t(divideCeil(bytes, group.ranks)), {1, scale},
      placement);
  int64_t length = plan.parts.length, nodes = placement.nodes;
  int64_t perNode = placement.perNode();
  int64_t partials = nodes > 1 ? nodes * length * scale : 0;
  bool hasResults = isAllReduce && !plan.isDirect;
  ++all.atoms;
  all.elements += perNode * plan.sums() * length;
  all.partials += partials;
  all.resultsBetween += hasResults && nodes > 1 ? nodes * length : 0;
  all.results += hasResults ? perNode * nodes * length : 0;
  all.summed += double(perNode * plan.sums() * length) +
                double(plan.sums() * length * (nodes > 1 ? scale : 1)) +
                double(partials + (nodes > 1 ? length : 0));
  all.launches += plan.sums() + (nodes > 1 ? 1 : 0);
  // Of each rank: to one rank of each other node, or to all of their ranks.
  int64_t sent = nodes > 1 ? (nodes - 1) * length * (scale + hasResults)
                           : (group.ranks - group.ranksPerNode) * length *
                                 (1 + hasResults);
  if (group.nodes == 1)
    return;
  all.betweenNodes += double(group.ranks) * double(sent);
  all.ringBetweenNodes += double(group.nodes) * double(group.ranks - 1) *
                          double(divideCeil(bytes, group.ranks)) *
                          (isAllReduce ? 2 : 1);
}

ExactSum mlir::fsdp::getExactSum(const Cluster &cluster,
                                 const TransferKey &transfer) {
  const GroupPlacement &group = transfer.group;
  assert(transfer.partialScales.size() == transfer.atomBytes.size() &&
         "each collective adds up");
  Volumes all;
  for (auto [bytes, scale] :
       llvm::zip(transfer.atomBytes, transfer.partialScales))
    if (bytes > 0)
      addVolumes(all, transfer.kind, group, bytes, scale);

  ExactSum sum;
  sum.betweenNodes = all.betweenNodes;
  sum.ringBetweenNodes = all.ringBetweenNodes;
  auto exchange = [&](const GroupPlacement &among, int64_t bytes) {
    if (bytes == 0)
      return;
    NcclCandidate choice =
        getNcclChoice(cluster, TransferKind::AllToAll, among, bytes, all.atoms);
    sum.latencySeconds += choice.latencySeconds;
    sum.seconds += choice.seconds;
  };
  // With two levels, all places of a node are groups that leave it at once.
  GroupPlacement inside = group, between = group;
  if (hasTwoLevels(group)) {
    inside = {group.ranksPerNode, 1, group.ranksPerNode};
    between = {group.nodes, group.nodes, 1, 0,
               group.neighbours * group.ranksPerNode};
  }
  exchange(inside, all.elements);
  exchange(between, all.partials);
  exchange(between, all.resultsBetween);
  exchange(inside, all.results);
  double launches = double(all.launches) * cluster.device.launchSeconds;
  sum.latencySeconds += launches;
  sum.seconds += launches + cluster.device.memory.seconds(all.summed);
  return sum;
}
