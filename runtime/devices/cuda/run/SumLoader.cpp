//===- SumLoader.cpp - Sums over ranks in the order of abi.def ------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "devices/cuda/run/SumLoader.h"

#include "core/Dtype.h"
#include "hal/Transfers.h"

namespace fsdp::rt {

using Kind = NcclCall::Kind;

std::vector<SumLoader::Part> SumLoader::makeParts(cu::Pointer scratch) const {
  std::vector<Part> parts;
  for (int64_t i = 0; i < start_.part_count; ++i) {
    const fsdp_rt_collective_desc &desc = *collectivesOf(start_)[i];
    int64_t size = dtypeSize(static_cast<Dtype>(desc.dtype));
    AllReducePlan plan = {false, {desc.count * channel_.size(), desc.count}};
    if (!isScatter())
      plan = planAllReduce(desc.count, size, channel_.size());
    parts.push_back({desc, plan, size, scratch});
    scratch +=
        static_cast<cu::Pointer>((channel_.size() - 1) * parts.back().stride());
  }
  return parts;
}

/// The elements of each other rank that this one adds up come into the scratch;
/// each other rank gets those that it adds up.
void SumLoader::addPieces(NcclExchange &exchange, const Part &part) const {
  const SumParts &cut = part.plan.parts;
  bool isDirect = part.plan.isDirect;
  auto bytesOf = [&](int rank) {
    return static_cast<size_t>((isDirect ? part.desc.count : cut.size(rank)) *
                               part.size);
  };
  cu::Pointer received = part.scratch;
  for (int peer = 0; peer < channel_.size(); ++peer) {
    if (peer == channel_.rank())
      continue;
    if (size_t bytes = bytesOf(peer)) {
      int64_t begin = isDirect ? 0 : cut.begin(peer) * part.size;
      exchange.add({Kind::Send, loader_.at(part.desc.src + begin), 0, bytes,
                    nccl::uint8, peer});
    }
    if (size_t bytes = bytesOf(channel_.rank()))
      exchange.add({Kind::Receive, 0, received, bytes, nccl::uint8, peer});
    received += static_cast<cu::Pointer>(part.stride());
  }
}

/// Of the elements that this rank adds up, its own and those of others.
Status SumLoader::addSum(const Part &part) {
  int rank = part.plan.isDirect ? 0 : channel_.rank();
  int64_t begin = part.plan.parts.begin(rank) * part.size;
  cu::Pointer dst =
      loader_.at(isScatter() ? part.desc.dst : part.desc.dst + begin);
  return loader_.addOwnKernel(sumLaunch(
      {static_cast<Dtype>(part.desc.dtype), loader_.at(part.desc.src + begin),
       dst, part.plan.parts.size(rank), part.desc.divisor, part.scratch,
       part.stride(), channel_.size(), channel_.rank()}));
}

/// Of all_reduces whose parts have been added up by one rank each.
void SumLoader::addSumsOfOthers(const std::vector<Part> &parts) {
  NcclExchange *exchange = loader_.addExchange(channel_);
  for (const Part &part : parts) {
    if (part.plan.isDirect)
      continue;
    const SumParts &cut = part.plan.parts;
    auto placeOf = [&](int rank) {
      return loader_.at(part.desc.dst + cut.begin(rank) * part.size);
    };
    auto bytesOf = [&](int rank) {
      return static_cast<size_t>(cut.size(rank) * part.size);
    };
    int own = channel_.rank();
    for (int peer = 0; peer < channel_.size(); ++peer) {
      if (peer != own && bytesOf(own))
        exchange->add(
            {Kind::Send, placeOf(own), 0, bytesOf(own), nccl::uint8, peer});
      if (peer != own && bytesOf(peer))
        exchange->add({Kind::Receive, 0, placeOf(peer), bytesOf(peer),
                       nccl::uint8, peer});
    }
  }
}

Status SumLoader::load() {
  std::shared_ptr<DeviceArena> memory =
      loader_.rank_.transfers().scratch(start_.queue);
  std::vector<Part> parts = makeParts(memory->base());
  loader_.keep(std::move(memory));
  NcclExchange *exchange = loader_.addExchange(channel_);
  for (const Part &part : parts)
    addPieces(*exchange, part);
  bool hasParts = false;
  for (const Part &part : parts) {
    if (Status s = addSum(part))
      return s;
    hasParts |= !isScatter() && !part.plan.isDirect;
  }
  if (hasParts)
    addSumsOfOthers(parts);
  return Status::ok();
}

} // namespace fsdp::rt
