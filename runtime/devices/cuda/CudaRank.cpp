//===- CudaRank.cpp - What one rank has of a CUDA device ------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "devices/cuda/CudaRank.h"

#include "devices/cuda/CudaLoader.h"

namespace fsdp::rt {

Result<std::unique_ptr<CudaRank>>
CudaRank::create(World &world, const DriverApi &api, const hal::Layout &layout,
                 int target, Reduction reduction) {
  std::unique_ptr<CudaRank> made(new CudaRank(layout, target));
  Result<std::unique_ptr<CudaContext>> context =
      CudaContext::create(api, world.localRank());
  if (!context.isOk())
    return context.status();
  made->context_ = std::move(*context);
  Result<CudaStream> stream = CudaStream::create(*made->context_);
  if (!stream.isOk())
    return stream.status();
  made->memoryStream_.emplace(std::move(*stream));
  Result<std::unique_ptr<DeviceArena>> device = DeviceArena::map(
      *made->context_, made->memoryStream_->get(), layout.memory.device);
  if (!device.isOk())
    return device.status();
  made->device_ = std::move(*device);
  Result<std::unique_ptr<PinnedMemory>> host = PinnedMemory::allocate(
      *made->context_, layout.memory.host, "arena of the host");
  if (!host.isOk())
    return host.status();
  made->host_ = std::move(*host);
  made->images_ = std::make_unique<CudaImages>(*made->context_);
  made->products_ = std::make_unique<CudaProducts>(*made->context_);
  made->transfers_ = std::make_unique<NcclTransfers>(
      world, *made->context_, made->memoryStream_->get(), layout, reduction);
  return made;
}

Result<std::unique_ptr<CudaExecutable>>
CudaRank::load(hal::Recording recording) {
  if (Status s = context_->makeCurrent())
    return s;
  auto made = std::make_unique<CudaExecutable>(std::move(recording));
  if (Status s = CudaLoader(*this, *made).load())
    return s;
  return made;
}

} // namespace fsdp::rt
