//===- Cluster.cpp - The machines that a program is planned for -----------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Cost/Cluster.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <tuple>

using namespace llvm;
using namespace mlir::fsdp;

Cluster::Cluster() {
  for (auto &row : contention)
    row.fill(1.0);
}

std::array<double, kNumCostDtypes> Device::getPeakFlops() const {
  std::array<double, kNumCostDtypes> peaks;
  for (unsigned i = 0; i < kNumCostDtypes; ++i)
    peaks[i] = matmul[i].peak > 0   ? matmul[i].peak
               : vector[i].peak > 0 ? vector[i].peak
                                    : vector[unsigned(CostDtype::F32)].peak;
  return peaks;
}

//===----------------------------------------------------------------------===//
// LineEfficiency
//===----------------------------------------------------------------------===//

LineEfficiency::LineEfficiency(ArrayRef<int64_t> ranks, ArrayRef<double> bytes,
                               ArrayRef<std::vector<double>> ratio,
                               double busBandwidth)
    : tableBandwidth(busBandwidth), ranks(ranks.begin(), ranks.end()) {
  for (size_t j = 0; j < ranks.size(); ++j) {
    std::vector<std::pair<double, double>> points;
    for (size_t i = 0; i < bytes.size(); ++i)
      points.emplace_back(bytes[i], ratio[i][j]);
    curves.push_back(SizeCurve::fromEfficiency(points));
  }
}

double LineEfficiency::ratio(double bytes, int64_t groupRanks,
                             double busBandwidth) const {
  if (curves.empty())
    return 1;
  double size = bytes * (tableBandwidth / busBandwidth);
  auto next = llvm::lower_bound(ranks, groupRanks);
  size_t index = next - ranks.begin();
  if (next == ranks.end())
    return curves.back().efficiency(size);
  if (index == 0 || *next == groupRanks)
    return curves[index].efficiency(size);
  return interpolateLog(double(groupRanks), double(ranks[index - 1]),
                        curves[index - 1].efficiency(size), double(*next),
                        curves[index].efficiency(size));
}

//===----------------------------------------------------------------------===//
// Placement
//===----------------------------------------------------------------------===//

Expected<GroupPlacement> mlir::fsdp::placeGroup(const Cluster &cluster,
                                                int64_t world, int64_t size,
                                                int64_t stride) {
  assert(size >= 1 && stride >= 1 && world % (size * stride) == 0 &&
         "a mesh is a product of its axes");
  int64_t perNode = cluster.gpusPerNode;
  int64_t capacity = cluster.nodes * perNode;
  if (world > capacity)
    return createStringError(
        "expected a mesh of at most %lld ranks on cluster '%s' (%lld nodes of "
        "%lld), got %lld",
        (long long)capacity, cluster.name.c_str(), (long long)cluster.nodes,
        (long long)perNode, (long long)world);
  if (size == 1)
    return GroupPlacement();

  // How slow a group is, apart from who shares its NICs.
  auto isWorse = [](const GroupPlacement &a, const GroupPlacement &b) {
    return std::make_tuple(a.nodes, -a.getFewestPerNode(), a.ranksPerNode) >
           std::make_tuple(b.nodes, -b.getFewestPerNode(), b.ranksPerNode);
  };
  // Group g starts at (g / stride) * stride * size + g % stride.
  GroupPlacement worst;
  std::vector<int64_t> groupsLeaving((world + perNode - 1) / perNode, 0);
  int64_t groups = world / size;
  for (int64_t g = 0; g < groups; ++g) {
    int64_t first = (g / stride) * stride * size + g % stride;
    GroupPlacement placement;
    placement.ranks = size;
    SmallVector<int64_t> touched, counts;
    // Ranks ascend, so a node's come one after another.
    for (int64_t i = 0; i < size; ++i) {
      int64_t node = (first + i * stride) / perNode;
      if (touched.empty() || node != touched.back()) {
        touched.push_back(node);
        counts.push_back(0);
      }
      ++counts.back();
    }
    placement.nodes = touched.size();
    placement.ranksPerNode = *llvm::max_element(counts);
    placement.unevenness = placement.ranksPerNode - *llvm::min_element(counts);
    if (placement.nodes > 1)
      for (int64_t n : touched)
        ++groupsLeaving[n];
    if (g == 0 || isWorse(placement, worst))
      worst = placement;
  }
  if (worst.nodes > 1)
    worst.neighbours = *llvm::max_element(groupsLeaving);

  if (worst.nodes > 1 && !cluster.inter)
    return createStringError(
        "expected links.inter in cluster '%s', because a group of %lld ranks "
        "reaches over %lld nodes of %lld, got none",
        cluster.name.c_str(), (long long)size, (long long)worst.nodes,
        (long long)perNode);
  if (worst.ranksPerNode > 1 && !cluster.intra)
    return createStringError(
        "expected links.intra in cluster '%s', because a group of %lld ranks "
        "has %lld on one node, got none",
        cluster.name.c_str(), (long long)size, (long long)worst.ranksPerNode);
  return worst;
}
