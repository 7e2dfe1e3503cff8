//===- NcclModel.h - How long NCCL's collectives take -----------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// NCCL chooses algorithm and protocol by a model of its own: a latency that
// counts hops plus bytes over an algorithmic bandwidth. This is that model,
// with the bandwidths of the cluster file instead of the topology search, and
// with the efficiency that lines were measured to reach.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_COST_NCCLMODEL_H
#define FSDP_COST_NCCLMODEL_H

#include "fsdp/Cost/Cluster.h"

namespace mlir::fsdp {

/// P2P: sends and receives between all pairs of ranks, in one kernel.
enum class NcclAlgorithm : uint8_t { Tree, Ring, NVLS, NVLSTree, P2P };
constexpr std::array<llvm::StringLiteral, 5> kNcclAlgorithmNames = {
    "tree", "ring", "nvls", "nvls_tree", "p2p"};
enum class NcclProtocol : uint8_t { LL, LL128, Simple };
constexpr std::array<llvm::StringLiteral, 3> kNcclProtocolNames = {
    "ll", "ll128", "simple"};

/// One way to run a collective.
struct NcclCandidate {
  NcclAlgorithm algorithm = NcclAlgorithm::Ring;
  NcclProtocol protocol = NcclProtocol::Simple;
  double latencySeconds = 0;
  /// Bytes of the whole buffer in a second, latency apart.
  double algorithmBandwidth = 0;
  /// The whole: NCCL's formula, or what the line was measured to need for so
  /// many bytes, if that is longer.
  double seconds = 0;
};

/// Bus bandwidth that @group has, in bytes a second: of the ring inside a node,
/// or of its share of the NICs, whichever is narrower.
double getBusBandwidth(const Cluster &cluster, const GroupPlacement &group);

/// Every way in which NCCL may run @atoms collectives of together @bytes.
/// @group has at least two ranks, and the cluster the links that join them.
llvm::SmallVector<NcclCandidate> getNcclCandidates(const Cluster &cluster,
                                                   TransferKind kind,
                                                   const GroupPlacement &group,
                                                   int64_t bytes,
                                                   int64_t atoms = 1);

/// The fastest of them; the first of equals.
NcclCandidate getNcclChoice(const Cluster &cluster, TransferKind kind,
                            const GroupPlacement &group, int64_t bytes,
                            int64_t atoms = 1);

} // namespace mlir::fsdp

#endif // FSDP_COST_NCCLMODEL_H
