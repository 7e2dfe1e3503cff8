//===- SumLoader.cpp - Sums over ranks in the order of abi.def ------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "devices/cuda/run/SumLoader.h"

#include "core/Dtype.h"
#include "hal/Transfers.h"

#include <algorithm>

namespace fsdp::rt {

using Kind = NcclCall::Kind;

SumLoader::SumLoader(CudaLoader &loader, const fsdp_rt_start_desc &start,
                     const NcclChannel &channel)
    : loader_(loader), channel_(channel),
      placement_(loader.rank_.transfers().placeSums(channel.ranks())),
      node_(placement_.nodeOf(channel.rank())),
      place_(placement_.placeOf(channel.rank())) {
  std::shared_ptr<DeviceArena> memory =
      loader_.rank_.transfers().scratch(start.queue);
  cu::Pointer scratch = memory->base();
  loader_.keep(std::move(memory));
  for (int64_t i = 0; i < start.part_count; ++i) {
    const fsdp_rt_collective_desc &desc = *collectivesOf(start)[i];
    parts_.push_back(
        {desc, NcclTransfers::planSum(start.kind, desc, placement_), scratch});
    scratch += static_cast<cu::Pointer>(parts_.back().plan.memoryBytes());
  }
}

/// Of the part of rank `owner` in an operand.
cu::Pointer SumLoader::placeOf(int64_t offset, const Part &part,
                               int64_t owner) const {
  return loader_.at(offset +
                    part.plan.parts.begin(owner) * part.plan.bytes.element);
}

cu::Pointer SumLoader::resultOf(const Part &part) const {
  return part.plan.isScatter ? loader_.at(part.desc.dst)
                             : placeOf(part.desc.dst, part, ownOf(part));
}

void SumLoader::addSend(NcclExchange &exchange, cu::Pointer src, int64_t bytes,
                        int64_t peer) {
  if (bytes > 0)
    exchange.add({Kind::Send, src, 0, static_cast<size_t>(bytes), nccl::uint8,
                  static_cast<int>(peer)});
}

void SumLoader::addReceive(NcclExchange &exchange, cu::Pointer dst,
                           int64_t bytes, int64_t peer) {
  if (bytes > 0)
    exchange.add({Kind::Receive, 0, dst, static_cast<size_t>(bytes),
                  nccl::uint8, static_cast<int>(peer)});
}

/// The elements of each other rank of the node that this one adds up come into
/// the scratch, sum by sum; each gets those that it adds up.
void SumLoader::addElements() {
  NcclExchange &exchange = *loader_.addExchange(channel_);
  for (const Part &part : parts_) {
    const SumPlan &plan = part.plan;
    cu::Pointer received = part.scratch;
    for (int64_t sum = 0; sum < plan.sums(); ++sum)
      for (int64_t place = 0; place < placement_.perNode(); ++place) {
        if (place == place_)
          continue;
        int64_t peer = placement_.rankAt(node_, place);
        int64_t theirs = plan.owner(sum, place), own = plan.owner(sum, place_);
        addSend(exchange, placeOf(part.desc.src, part, theirs),
                plan.parts.size(theirs) * plan.bytes.element, peer);
        addReceive(exchange, received,
                   plan.parts.size(own) * plan.bytes.element, peer);
        received += static_cast<cu::Pointer>(plan.stride());
      }
  }
}

/// With one level, of all ranks.
Status SumLoader::addSumsOfNode(const Part &part) {
  const SumPlan &plan = part.plan;
  bool isAll = placement_.nodes == 1;
  SumTypes types = part.dtype();
  if (!isAll)
    types.result = partialTypeOf(part.dtype());
  cu::Pointer received = part.scratch;
  auto others = static_cast<int>(placement_.perNode() - 1);
  for (int64_t sum = 0; sum < plan.sums(); ++sum) {
    int64_t owner = plan.owner(sum, place_);
    if (Status s = loader_.addOwnKernel(sumLaunch(
            {types, placeOf(part.desc.src, part, owner),
             isAll ? resultOf(part) : part.partial(sum), plan.parts.size(owner),
             isAll ? part.desc.divisor : 1, received, plan.stride(), others + 1,
             static_cast<int>(place_)})))
      return s;
    received += static_cast<cu::Pointer>(others * plan.stride());
  }
  return Status::ok();
}

/// Sums of the other nodes come to where elements were before.
void SumLoader::addSumsOfNodes() {
  NcclExchange &exchange = *loader_.addExchange(channel_);
  for (const Part &part : parts_) {
    const SumPlan &plan = part.plan;
    cu::Pointer received = part.scratch;
    for (int64_t node = 0; node < placement_.nodes; ++node) {
      if (node == node_)
        continue;
      int64_t peer = placement_.rankAt(node, place_);
      int64_t theirs = plan.owner(node, place_);
      addSend(exchange, part.partial(plan.isDirect ? 0 : node),
              plan.parts.size(theirs) * plan.bytes.partial, peer);
      addReceive(exchange, received,
                 plan.parts.size(ownOf(part)) * plan.bytes.partial, peer);
      received += static_cast<cu::Pointer>(plan.partialStride());
    }
  }
}

Status SumLoader::addSumOverNodes(const Part &part) {
  const SumPlan &plan = part.plan;
  return loader_.addOwnKernel(
      sumLaunch({SumTypes(partialTypeOf(part.dtype()), part.dtype()),
                 part.partial(plan.isDirect ? 0 : node_), resultOf(part),
                 plan.parts.size(ownOf(part)), part.desc.divisor, part.scratch,
                 plan.partialStride(), static_cast<int>(placement_.nodes),
                 static_cast<int>(node_)}));
}

/// Of all_reduces whose parts have been added up by one rank each.
void SumLoader::addResultsBetweenNodes() {
  NcclExchange &exchange = *loader_.addExchange(channel_);
  for (const Part &part : parts_) {
    if (!part.hasResultsOfOthers())
      continue;
    const SumPlan &plan = part.plan;
    for (int64_t node = 0; node < placement_.nodes; ++node) {
      if (node == node_)
        continue;
      int64_t peer = placement_.rankAt(node, place_);
      addSend(exchange, resultOf(part),
              plan.parts.size(ownOf(part)) * plan.bytes.element, peer);
      addReceive(exchange, placeOf(part.desc.dst, part, peer),
                 plan.parts.size(peer) * plan.bytes.element, peer);
    }
  }
}

/// What ranks of this one's place have added up, for what ranks of the others'
/// places have.
void SumLoader::addResultsOfNode() {
  NcclExchange &exchange = *loader_.addExchange(channel_);
  for (const Part &part : parts_) {
    if (!part.hasResultsOfOthers())
      continue;
    const SumPlan &plan = part.plan;
    for (int64_t node = 0; node < placement_.nodes; ++node)
      for (int64_t place = 0; place < placement_.perNode(); ++place) {
        if (place == place_)
          continue;
        int64_t peer = placement_.rankAt(node_, place);
        int64_t ours = placement_.rankAt(node, place_);
        int64_t theirs = placement_.rankAt(node, place);
        addSend(exchange, placeOf(part.desc.dst, part, ours),
                plan.parts.size(ours) * plan.bytes.element, peer);
        addReceive(exchange, placeOf(part.desc.dst, part, theirs),
                   plan.parts.size(theirs) * plan.bytes.element, peer);
      }
  }
}

Status SumLoader::load() {
  addElements();
  for (const Part &part : parts_)
    if (Status s = addSumsOfNode(part))
      return s;
  if (placement_.nodes > 1) {
    addSumsOfNodes();
    for (const Part &part : parts_)
      if (Status s = addSumOverNodes(part))
        return s;
  }
  if (std::none_of(parts_.begin(), parts_.end(),
                   [](const Part &part) { return part.hasResultsOfOthers(); }))
    return Status::ok();
  if (placement_.nodes > 1)
    addResultsBetweenNodes();
  addResultsOfNode();
  return Status::ok();
}

} // namespace fsdp::rt
