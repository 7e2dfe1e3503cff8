//===- CudaRank.h - What one rank has of a CUDA device ----------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_DEVICES_CUDA_RUN_CUDARANK_H
#define FSDP_RT_DEVICES_CUDA_RUN_CUDARANK_H

#include "core/Status.h"
#include "devices/cuda/blas/CudaProducts.h"
#include "devices/cuda/dnn/CudaAttentions.h"
#include "devices/cuda/driver/CudaContext.h"
#include "devices/cuda/driver/CudaImages.h"
#include "devices/cuda/driver/CudaMemory.h"
#include "devices/cuda/nccl/NcclTransfers.h"
#include "devices/cuda/nccl/RankCards.h"
#include "devices/cuda/nccl/StagedTransfers.h"
#include "devices/cuda/run/CudaExecutable.h"
#include "devices/cuda/run/RunNumbers.h"
#include "hal/Layout.h"
#include "hal/Recording.h"

#include <memory>
#include <vector>

namespace fsdp::rt {

/// Memory, code and products of one rank.
class CudaRank {
public:
  /// On the device that RankCards finds, whose context becomes the thread's.
  /// `target` is the number of the artifact's target of which its code is.
  /// `world` and `layout` must outlive it.
  static Result<std::unique_ptr<CudaRank>>
  create(World &world, const DriverApi &api, const hal::Layout &layout,
         int target, const CudaSettings &settings);

  /// Finds the code of every call of `made` and prepares its work. Refuses what
  /// this device cannot run. Collective over all ranks.
  Status load(CudaExecutable &made);

  const CudaContext &context() const { return *context_; }
  const hal::Layout &layout() const { return layout_; }
  int target() const { return target_; }
  /// Whether kernels may begin before those before them have ended.
  bool usesDependentLaunch() const { return whyNoDependentLaunch_.empty(); }
  /// "dependent launch: on".
  std::string describeLaunches() const;
  /// More of the device's memory, beside the arena; `what` names it in errors.
  Result<std::unique_ptr<DeviceArena>> mapMore(int64_t bytes,
                                               const std::string &what) const {
    return DeviceArena::map(*context_, *copies_, bytes, what);
  }
  /// Memory of the host's for marks of a program, until nobody else holds it;
  /// then another program's. It is freed with the rank alone: the driver waits
  /// for the device, and so for other ranks, when pinned memory is freed.
  Result<std::shared_ptr<PinnedMemory>> lendPinned(int64_t bytes);
  RunNumbers &numbers() { return *numbers_; }
  /// Uploads and downloads.
  CudaCopies &copies() { return *copies_; }
  DeviceArena &device() { return *device_; }
  PinnedMemory &host() { return *host_; }
  CudaImages &images() { return *images_; }
  CudaProducts &products() { return *products_; }
  CudaAttentions &attentions() { return *attentions_; }
  NcclTransfers &transfers() { return *transfers_; }
  /// Null unless collectives go through the host's memory.
  StagedTransfers *staged() { return staged_.get(); }

private:
  Status chooseLaunches(const CudaSettings &settings);
  CudaRank(const hal::Layout &layout, int target, RankCards cards)
      : layout_(layout), target_(target), cards_(std::move(cards)) {}

  const hal::Layout &layout_;
  int target_;
  RankCards cards_;
  std::string whyNoDependentLaunch_;
  std::unique_ptr<CudaContext> context_;
  std::unique_ptr<CudaCopies> copies_;
  std::unique_ptr<DeviceArena> device_;
  std::unique_ptr<PinnedMemory> host_;
  std::vector<std::shared_ptr<PinnedMemory>> lent_;
  std::unique_ptr<RunNumbers> numbers_;
  std::unique_ptr<CudaImages> images_;
  std::unique_ptr<CudaProducts> products_;
  std::unique_ptr<CudaAttentions> attentions_;
  std::unique_ptr<NcclTransfers> transfers_;
  std::unique_ptr<StagedTransfers> staged_;
};

} // namespace fsdp::rt

#endif // FSDP_RT_DEVICES_CUDA_RUN_CUDARANK_H
