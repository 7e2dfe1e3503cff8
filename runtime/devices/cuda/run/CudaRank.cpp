//===- CudaRank.cpp - What one rank has of a CUDA device ------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "devices/cuda/run/CudaRank.h"

#include "devices/cuda/run/CudaLoader.h"

#include <cstring>

namespace fsdp::rt {

Result<std::unique_ptr<CudaRank>>
CudaRank::create(World &world, const DriverApi &api, const hal::Layout &layout,
                 int target, const CudaSettings &settings) {
  Result<RankCards> cards = RankCards::find(world, api, settings);
  if (!cards.isOk())
    return cards.status();
  std::unique_ptr<CudaRank> made(
      new CudaRank(layout, target, std::move(*cards)));
  Result<std::unique_ptr<CudaContext>> context =
      CudaContext::create(api, made->cards_.ordinal());
  if (!context.isOk())
    return context.status();
  made->context_ = std::move(*context);
  if (Status s = made->context_->setPeers(made->cards_.peers()))
    return s;
  if (Status s = made->chooseLaunches(settings))
    return s;
  Result<std::unique_ptr<CudaCopies>> copies =
      CudaCopies::create(*made->context_);
  if (!copies.isOk())
    return copies.status();
  made->copies_ = std::move(*copies);
  Result<std::unique_ptr<DeviceArena>> device = DeviceArena::map(
      *made->context_, *made->copies_, layout.memory.device, "an arena");
  if (!device.isOk())
    return device.status();
  made->device_ = std::move(*device);
  Result<std::unique_ptr<PinnedMemory>> host = PinnedMemory::allocate(
      *made->context_, layout.memory.host, "arena of the host");
  if (!host.isOk())
    return host.status();
  made->host_ = std::move(*host);
  Result<std::unique_ptr<RunNumbers>> numbers =
      RunNumbers::create(*made->context_, *made->device_);
  if (!numbers.isOk())
    return numbers.status();
  made->numbers_ = std::move(*numbers);
  // What is no parameter is never uploaded: gradients that are added up. Who
  // begins a sum reads what was there, and takes no part of it.
  if (layout.state.device > 0)
    if (Status s =
            made->copies_->clear(made->device_->base(), layout.state.device))
      return s;
  if (layout.state.host > 0)
    std::memset(made->host_->data(), 0, static_cast<size_t>(layout.state.host));
  made->images_ = std::make_unique<CudaImages>(*made->context_);
  made->products_ =
      std::make_unique<CudaProducts>(world, *made->context_, *made->copies_,
                                     *made->device_, settings.algorithms);
  made->attentions_ = std::make_unique<CudaAttentions>(
      world, *made->context_, *made->copies_, *made->device_, layout,
      settings.attention);
  made->transfers_ = std::make_unique<NcclTransfers>(
      world, *made->context_, made->cards_, *made->copies_, layout, settings);
  if (settings.exchange == Exchange::Host)
    made->staged_ =
        std::make_unique<StagedTransfers>(world, *made->context_, layout);
  return made;
}

Status CudaRank::chooseLaunches(const CudaSettings &settings) {
  if (settings.dependentLaunch == DependentLaunch::Off) {
    whyNoDependentLaunch_ = "--dependent-launch off";
    return Status::ok();
  }
  std::string missing = context_->whyNoDependentLaunch(settings.usesGraphs);
  if (missing.empty())
    return Status::ok();
  if (settings.dependentLaunch == DependentLaunch::On)
    return Status::failed("--dependent-launch on: expected " + missing);
  whyNoDependentLaunch_ = "it needs " + missing;
  return Status::ok();
}

std::string CudaRank::describeLaunches() const {
  return usesDependentLaunch()
             ? "dependent launch: on"
             : "dependent launch: off, " + whyNoDependentLaunch_;
}

Result<std::shared_ptr<PinnedMemory>> CudaRank::lendPinned(int64_t bytes) {
  constexpr int64_t page = 4096;
  for (const std::shared_ptr<PinnedMemory> &memory : lent_)
    if (memory.use_count() == 1 && memory->size() >= bytes)
      return memory;
  Result<std::unique_ptr<PinnedMemory>> made =
      PinnedMemory::allocate(*context_, (bytes + page - 1) / page * page,
                             "marks of a program's calls");
  if (!made.isOk())
    return made.status();
  lent_.push_back(std::move(*made));
  return lent_.back();
}

Status CudaRank::load(CudaExecutable &made) {
  if (Status s = context_->makeCurrent())
    return s;
  if (Status s = numbers_->prepare(*images_))
    return s;
  return CudaLoader(*this, made).load();
}

} // namespace fsdp::rt
