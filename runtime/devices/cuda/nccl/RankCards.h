//===- RankCards.h - Which GPU each rank has --------------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_DEVICES_CUDA_NCCL_RANKCARDS_H
#define FSDP_RT_DEVICES_CUDA_NCCL_RANKCARDS_H

#include "core/Status.h"
#include "devices/cuda/driver/CudaSettings.h"
#include "devices/cuda/driver/DriverApi.h"
#include "devices/cuda/nccl/NcclApi.h"
#include "hal/World.h"

#include <map>
#include <string>
#include <vector>

namespace fsdp::rt {

/// By name.
using NcclVariables = std::map<std::string, std::string>;

/// The GPU of one rank, and which other ranks have the same one.
class RankCards {
public:
  /// Chooses the device whose number, among those that the process sees, is the
  /// rank's number on its host, modulo how many it sees. Collective over all
  /// ranks, which must have the same --channel, --attention and --graph.
  static Result<RankCards> find(World &world, const DriverApi &api,
                                const CudaSettings &settings);

  int ordinal() const { return ordinal_; }
  /// Numbers of the other devices that ranks of this process have.
  const std::vector<int> &peers() const { return peers_; }
  /// World ranks with this rank's GPU, itself among them, in their order.
  const std::vector<int> &sharers() const { return sharers_; }
  /// Of the GPU that most ranks share.
  int mostSharers() const { return mostSharers_; }
  /// A number that tells nodes of world ranks apart: the host's, or that of so
  /// many consecutive ranks as FSDP_NODE_RANKS says.
  int nodeOf(int rank) const { return nodes_[static_cast<size_t>(rank)]; }
  bool isShared() const { return sharers_.size() > 1; }
  /// "ranks 0 and 1 share device 0 (NVIDIA H100 80GB HBM3)".
  std::string describe() const;

  /// Adds what lets NCCL take ranks that share a GPU; refuses where `api` is
  /// too old for it. `notes` says what is added.
  Status permit(const World &world, const NcclApi &api,
                NcclVariables &variables,
                std::vector<std::string> &notes) const;
  /// Sets variables of the process's environment that NCCL reads when its first
  /// communicator is made. One that its user has set stays; `notes` says so
  /// where it is another. Collective over all ranks.
  Status setVariables(World &world, const NcclVariables &variables,
                      std::vector<std::string> &notes) const;
  /// For ncclConfig_t: of each rank, so that kernels of all that share a GPU
  /// fit it at once; nccl::Config::undefined where NCCL's default does.
  int maxCtas() const;
  /// What to do where NCCL does not take ranks that share a GPU.
  static const char *remedy();

private:
  Status readName(const DriverApi &api);

  int ordinal_ = 0;
  std::vector<int> peers_;
  std::string name_;
  std::vector<int> sharers_;
  int mostSharers_ = 1;
  std::vector<int> nodes_ = {0};
  /// Whether two ranks of one process share a GPU, on any host.
  bool hasSharingThreads_ = false;
};

} // namespace fsdp::rt

#endif // FSDP_RT_DEVICES_CUDA_NCCL_RANKCARDS_H
