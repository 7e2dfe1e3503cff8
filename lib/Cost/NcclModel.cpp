//===- NcclModel.cpp - How long NCCL's collectives take -------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The constants are those by which NCCL tunes itself (its file
// src/graph/tuning.cc, version 2.30), in its units: microseconds and GB/s.
//
//===----------------------------------------------------------------------===//

#include "fsdp/Cost/NcclModel.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/ErrorHandling.h"
#include "llvm/Support/MathExtras.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>

using namespace llvm;
using namespace mlir::fsdp;

namespace {

constexpr double kMicro = 1e-6;
constexpr double kGiga = 1e9;
constexpr unsigned kLL = 0, kLL128 = 1, kSimple = 2;

/// What starting costs, by protocol.
constexpr double kTreeBase[3] = {6.8, 14.0, 8.4};
constexpr double kRingBase[3] = {6.6, 14.0, 8.4};
/// One hop, by protocol.
constexpr double kTreeNVLink[3] = {0.6, 1.25, 4.0};
constexpr double kRingNVLink[3] = {0.6, 1.9, 3.4};
constexpr double kTreePCI[3] = {1.0, 1.9, 4.0};
constexpr double kRingPCI[3] = {1.0, 2.5, 5.7};
constexpr double kTreeNet[3] = {5.0, 8.5, 14.0};
constexpr double kRingNet[3] = {2.7, 4.0, 14.0};
constexpr double kNvlsHop = 25.0;
constexpr double kNvlsTreeNet = 20.9;

/// Most bus bandwidth of LL. One node: by architecture. More: by the host's
/// CPU, Intel first, then AMD. Columns: 1, 2 and more nodes.
constexpr double kLLMost[4][3] = {{39.0, 39.0, 20.4},
                                  {87.7, 22.5, 19.0},
                                  {141.0, 45.0, 35.0},
                                  {282.0, 90.0, 70.0}};
/// Most per channel, by architecture and 1, 2 or more nodes.
constexpr double kRingLL128PerChannel[4] = {20.0, 20.0, 36.7, 40.0};
constexpr double kTreeLL128PerChannel[4][3] = {{20.0, 20.0, 20.0},
                                               {20.0, 20.0, 20.0},
                                               {36.7, 36.7, 29.0},
                                               {55.6, 31.67, 20.0}};
constexpr double kTreePerChannel[4][3] = {{26.5, 18.5, 10.0},
                                          {24.0, 23.6, 17.8},
                                          {38.7, 41.4, 36.0},
                                          {70.0, 42.8, 24.0}};
constexpr double kNvlsTreePerChannel[4][3] = {{26.5, 18.5, 10.0},
                                              {24.0, 23.6, 17.8},
                                              {0.0, 57.7, 45.5},
                                              {0.0, 96.0, 80.0}};

/// Trees of medium sizes are slower than their model: factors for 64 B, 128 B,
/// ... 512 MB.
constexpr double kTreeCorrection[3][24] = {
    {1.0, 1.0, 1.0, 1.0, .9, .8, .7, .7,  .7,  .7,  .6,  .5,
     .4,  .4,  .5,  .6,  .7, .8, .9, 1.0, 1.0, 1.0, 1.0, 1.0},
    {1.0, 1.0, 1.0, 1.0, 1.0, .9, .8, .8, .8, .7,  .6,  .6,
     .6,  .6,  .6,  .6,  .8,  .9, .9, .9, .9, 1.0, 1.0, 1.0},
    {.9, .9, .9, .9, .9, .9, .9, .8, .7, .6, .6, .5,
     .5, .5, .5, .6, .7, .8, .7, .7, .8, .9, .9, .9}};

/// NCCL takes the factor of the power of two below; a step would make a larger
/// collective faster than a smaller one, so this is a line between the powers.
double getTreeCorrection(unsigned protocol, double bytes) {
  double position = std::log2(std::max(bytes, 64.0) / 64.0);
  if (position >= 23)
    return kTreeCorrection[protocol][23];
  unsigned index = unsigned(position);
  double part = position - index;
  return kTreeCorrection[protocol][index] * (1 - part) +
         kTreeCorrection[protocol][index + 1] * part;
}

/// One collective under NCCL's model.
struct Model {
  const Cluster &cluster;
  TransferKind kind;
  const GroupPlacement &group;
  double bytes;
  int64_t latencyCount;

  bool isAllReduce() const { return kind == TransferKind::AllReduce; }
  unsigned arch() const { return unsigned(cluster.nccl.arch); }
  unsigned nodeColumn() const { return group.nodes <= 2 ? group.nodes - 1 : 2; }
  double steps() const {
    return (isAllReduce() ? 2.0 : 1.0) * double(group.ranks - 1);
  }
  bool hasNVLink() const {
    return cluster.intra && cluster.intra->kind == IntraKind::NVLink;
  }

  const LineEfficiency &lineEfficiency() const {
    return group.nodes > 1 ? cluster.inter->efficiency
                           : cluster.intra->efficiency;
  }
  double intraLatency(const double (&nvlink)[3], const double (&pci)[3],
                      unsigned protocol) const {
    double extra = cluster.intra ? cluster.intra->latencySeconds / kMicro : 0.0;
    return (hasNVLink() || group.ranksPerNode == 1 ? nvlink : pci)[protocol] +
           extra;
  }
  double interLatency(const double (&net)[3], unsigned protocol) const {
    if (group.nodes == 1)
      return 0;
    // With one rank on each node nothing hides the network's own latency.
    double hop = group.ranksPerNode == 1 ? kTreeNet[protocol] : net[protocol];
    double extra = cluster.inter->latencySeconds / kMicro;
    // Simple also waits for a flush.
    return hop + extra * (protocol == kSimple ? 2 : 1);
  }
  double llMost() const {
    unsigned row = group.nodes == 1 ? arch() : (cluster.nccl.amdHost ? 1 : 0);
    return kLLMost[row][nodeColumn()];
  }
  /// LL128 needs stores of 128 bytes that arrive whole.
  bool isEnabled(unsigned protocol) const {
    if (!cluster.nccl.protocols[protocol])
      return false;
    return protocol != kLL128 || hasNVLink() || group.ranksPerNode == 1;
  }

  /// @bandwidth in GB/s, of the algorithm; @nominal: what the algorithm has
  /// with the fastest protocol, which measured efficiencies refer to.
  NcclCandidate make(NcclAlgorithm algorithm, unsigned protocol, double latency,
                     double bandwidth, double nominal, double bus) const {
    NcclCandidate result;
    result.algorithm = algorithm;
    result.protocol = NcclProtocol(protocol);
    result.latencySeconds = latency * kMicro * double(latencyCount);
    result.algorithmBandwidth = bandwidth * kGiga;
    double formula = result.latencySeconds + bytes / result.algorithmBandwidth;
    double measured =
        bytes / (nominal * kGiga *
                 lineEfficiency().ratio(bytes, group.ranks, bus * kGiga));
    result.seconds = std::max(formula, measured);
    return result;
  }

  NcclCandidate ring(unsigned protocol, double bus) const {
    double busBandwidth = bus;
    if (protocol == kLL)
      busBandwidth = std::min(llMost(), bus * .5);
    if (protocol == kLL128)
      busBandwidth = std::min(bus * .92, double(cluster.nccl.channels) *
                                             kRingLL128PerChannel[arch()]);
    double ratio = double(group.ranks) / steps();
    double intra = intraLatency(kRingNVLink, kRingPCI, protocol);
    double inter = interLatency(kRingNet, protocol);
    double interSteps = (isAllReduce() ? 2.0 : 1.0) * double(group.nodes - 1);
    // Between nodes each step also posts to the network.
    double post = group.nodes == 1 ? 0.0 : cluster.nccl.amdHost ? 2.0 : 1.0;
    intra = std::max(intra, protocol == kSimple ? 3 * post : post);
    double latency = kRingBase[protocol] + (steps() - interSteps) * intra +
                     interSteps * inter;
    bool plateau = protocol == kSimple && group.nodes > 1 && isAllReduce() &&
                   bytes / double(cluster.nccl.channels * group.ranks) >= 64;
    if (plateau)
      latency *= cluster.nccl.arch == NcclArch::Volta ? 1.9 : 1.4;
    return make(NcclAlgorithm::Ring, protocol, latency, busBandwidth * ratio,
                bus * ratio, bus);
  }

  /// Each rank sends every other one its part: over the links of its node, and
  /// over the node's NICs what belongs to other nodes, which no other rank
  /// carries for it. Both move at once. A channel serves one peer at a time.
  NcclCandidate p2p(unsigned protocol, double intraBus, double interBus) const {
    double ranks = double(group.ranks), local = double(group.ranksPerNode);
    // Seconds for a giga of whole buffer.
    double inside = local > 1 ? (local - 1) / ranks / intraBus : 0;
    double outside =
        group.nodes > 1 ? local * (ranks - local) / ranks / interBus : 0;
    double simple = 1 / std::max(inside, outside), bandwidth = simple;
    if (protocol == kLL)
      bandwidth = std::min(simple * .5, llMost() * ranks / (ranks - 1));
    double hop = std::max(intraLatency(kRingNVLink, kRingPCI, protocol),
                          interLatency(kRingNet, protocol));
    double rounds = double(divideCeil(group.ranks - 1, cluster.nccl.channels));
    return make(NcclAlgorithm::P2P, protocol,
                kRingBase[protocol] + rounds * hop, bandwidth, simple,
                outside > inside ? interBus : intraBus);
  }

  NcclCandidate tree(unsigned protocol, double bus) const {
    unsigned column = nodeColumn();
    double channels = double(cluster.nccl.channels);
    double simple =
        std::min(bus * .92, channels * kTreePerChannel[arch()][column]);
    double busBandwidth = simple;
    if (protocol == kLL)
      busBandwidth = std::min(simple / 3.8, llMost());
    if (protocol == kLL128)
      busBandwidth =
          std::min(simple * (group.nodes == 1 ? 7.0 / 9.0 : 120.0 / 128.0),
                   channels * kTreeLL128PerChannel[arch()][column]);
    double latency =
        kTreeBase[protocol] +
        2 * (double(group.ranksPerNode - 1) *
                 intraLatency(kTreeNVLink, kTreePCI, protocol) +
             double(Log2_64(group.nodes)) * interLatency(kTreeNet, protocol));
    return make(NcclAlgorithm::Tree, protocol, latency,
                busBandwidth * .5 * getTreeCorrection(protocol, bytes),
                simple * .5, bus);
  }

  /// One channel's worth of links is left to the copies of the switch.
  double spareChannel() const {
    double channels = double(cluster.nccl.channels);
    return (channels - 1) / channels;
  }

  /// The NVLink switch adds up (all_reduce) or multicasts.
  NcclCandidate nvls(double bus) const {
    const Nvls &nvls = *cluster.intra->nvls;
    double bandwidth = bus * nvls.efficiency * spareChannel();
    if (isAllReduce()) {
      // Two operations in a pipeline; 2 (n - 1) / n of it is bus bandwidth.
      bandwidth = std::min(2 * bandwidth, nvls.maxBusBandwidth / kGiga) *
                  double(group.ranks) / steps();
    } else {
      bandwidth *= double(group.ranksPerNode - 1) / double(group.ranksPerNode);
    }
    return make(NcclAlgorithm::NVLS, kSimple, kNvlsHop, bandwidth, bandwidth,
                bus);
  }

  NcclCandidate nvlsTree(double intraBus, double interBus) const {
    const Nvls &nvls = *cluster.intra->nvls;
    double bus = std::min({2 * intraBus * nvls.efficiency * spareChannel(),
                           nvls.maxBusBandwidth / kGiga,
                           interBus * (group.nodes == 2 ? 2 : 1),
                           double(cluster.nccl.channels) *
                               kNvlsTreePerChannel[arch()][nodeColumn()]});
    double extra = cluster.inter->latencySeconds / kMicro;
    double latency = kNvlsHop + 2 * double(Log2_64(group.nodes)) *
                                    (kNvlsTreeNet + 2 * extra);
    double bandwidth = bus * double(group.ranks) / steps();
    return make(NcclAlgorithm::NVLSTree, kSimple, latency, bandwidth, bandwidth,
                interBus);
  }
};

/// The group's share of its nodes' NICs. What a collective brings to each node
/// enters it there, so the slowest node is what counts.
double getInterBandwidth(const Cluster &cluster, const GroupPlacement &group) {
  const InterLink &inter = *cluster.inter;
  double node = inter.bandwidth * double(inter.nicsPerNode);
  // A GPU drives the NICs beside it, at least one.
  double perGpu =
      inter.bandwidth *
      std::max(1.0, double(inter.nicsPerNode) / double(cluster.gpusPerNode));
  return std::min(node / double(group.neighbours),
                  double(group.getFewestPerNode()) * perGpu) *
         inter.efficiency.scale();
}

double getIntraBandwidth(const Cluster &cluster) {
  return cluster.intra->bandwidth * cluster.intra->efficiency.scale();
}

} // namespace

double mlir::fsdp::getBusBandwidth(const Cluster &cluster,
                                   const GroupPlacement &group) {
  if (group.nodes == 1)
    return getIntraBandwidth(cluster);
  double inter = getInterBandwidth(cluster, group);
  if (group.ranksPerNode == 1)
    return inter;
  // Rings enter and leave a node at different GPUs, so of n GPUs' links
  // n - 1 are used by each ring.
  double n = double(group.ranksPerNode);
  return std::min(inter, getIntraBandwidth(cluster) * n / (n - 1));
}

/// Sends between all pairs of ranks, by the protocols that NCCL has for them.
static SmallVector<NcclCandidate> getPairwise(const Model &model) {
  const Cluster &cluster = model.cluster;
  const GroupPlacement &group = model.group;
  double intraBus =
      group.ranksPerNode > 1 ? getIntraBandwidth(cluster) / kGiga : 0;
  double interBus =
      group.nodes > 1 ? getInterBandwidth(cluster, group) / kGiga : 0;
  SmallVector<NcclCandidate> result;
  for (unsigned protocol : {kLL, kSimple})
    if (model.isEnabled(protocol) || protocol == kSimple)
      result.push_back(model.p2p(protocol, intraBus, interBus));
  return result;
}

/// Rings and NVLS and, of an all-reduce, trees.
static SmallVector<NcclCandidate> getRingsAndTrees(const Model &model) {
  const Cluster &cluster = model.cluster;
  const GroupPlacement &group = model.group;
  double bus = getBusBandwidth(cluster, group) / kGiga;
  SmallVector<NcclCandidate> result;
  for (unsigned protocol : {kLL, kLL128, kSimple})
    if (model.isEnabled(protocol))
      result.push_back(model.ring(protocol, bus));
  bool nvlsHere = cluster.intra && cluster.intra->nvls &&
                  group.ranksPerNode > 2 && cluster.nccl.channels > 1 &&
                  unsigned(cluster.nccl.arch) >= unsigned(NcclArch::Hopper) &&
                  cluster.nccl.protocols[kSimple];
  if (nvlsHere && group.nodes == 1)
    result.push_back(model.nvls(bus));
  if (!model.isAllReduce())
    return result;

  // Between two nodes a tree sends up and down at once.
  double treeBus = bus;
  if (group.nodes == 2) {
    treeBus = 2 * getInterBandwidth(cluster, group) / kGiga;
    if (group.ranksPerNode > 1)
      treeBus = std::min(treeBus, getIntraBandwidth(cluster) / kGiga);
  }
  for (unsigned protocol : {kLL, kLL128, kSimple})
    if (model.isEnabled(protocol))
      result.push_back(model.tree(protocol, treeBus));
  if (nvlsHere && group.nodes > 1)
    result.push_back(model.nvlsTree(getIntraBandwidth(cluster) / kGiga,
                                    getInterBandwidth(cluster, group) / kGiga));
  return result;
}

SmallVector<NcclCandidate>
mlir::fsdp::getNcclCandidates(const Cluster &cluster, TransferKind kind,
                              const GroupPlacement &group, int64_t bytes,
                              int64_t atoms) {
  assert(group.ranks > 1 && bytes > 0 && atoms > 0 && "nothing to communicate");
  // NCCL spreads the collectives of one group call over its channels.
  int64_t latencyCount = divideCeil(atoms, cluster.nccl.channels);
  Model model{cluster, kind, group, double(bytes), latencyCount};
  switch (kind) {
  case TransferKind::AllGather:
  case TransferKind::ReduceScatter:
  case TransferKind::AllReduce:
    return getRingsAndTrees(model);
  case TransferKind::AllToAll:
    return getPairwise(model);
  case TransferKind::Offload:
  case TransferKind::Reload:
    break;
  }
  llvm_unreachable("expected a collective, got a copy to or from the host");
}

NcclCandidate mlir::fsdp::getNcclChoice(const Cluster &cluster,
                                        TransferKind kind,
                                        const GroupPlacement &group,
                                        int64_t bytes, int64_t atoms) {
  SmallVector<NcclCandidate> candidates =
      getNcclCandidates(cluster, kind, group, bytes, atoms);
  return *llvm::min_element(candidates,
                            [](const NcclCandidate &a, const NcclCandidate &b) {
                              return a.seconds < b.seconds;
                            });
}
