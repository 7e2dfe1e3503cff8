//===- MpiChannel.cpp - Collectives by messages ----------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "MpiChannel.h"

#include "core/Clock.h"
#include "core/Group.h"
#include "core/Reduce.h"
#include "core/ThreadPool.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace fsdp::rt {

namespace {

constexpr int64_t cacheLine = 64;

} // namespace

MpiChannel::MpiChannel(MpiWorker &worker, const MpiBackendOptions &options,
                       std::vector<int> ranks, int index, int nth,
                       ThreadPool *pool)
    : worker_(worker), stagingBytes_(options.stagingBytes) {
  group_.id = static_cast<int64_t>(channelId(ranks, nth));
  group_.ranks = std::move(ranks);
  group_.index = index;
  group_.pool = pool;
  group_.chunkBytes = options.chunkBytes;
}

Status MpiChannel::reserve() {
  int64_t peers = size() - 1;
  if (stagingBytes_ < 2 * peers * cacheLine)
    return Status::failed("expected staging memory of at least " +
                          std::to_string(2 * peers * cacheLine) +
                          " bytes for a group of " + std::to_string(size()) +
                          " ranks, got " + std::to_string(stagingBytes_));
  Result<Arena> staging =
      Arena::map(peers > 0 ? stagingBytes_ : 0, "staging memory");
  if (!staging.isOk())
    return staging.status();
  group_.staging = std::move(*staging);
  ThreadPool none;
  group_.staging.touch(group_.pool ? *group_.pool : none);
  group_.packets.resize(size());
  group_.awaited.assign(size(), -1);
  group_.sources.resize(size());
  group_.packetRequests.reserve(2 * peers + 2);
  for (RequestSet &set : group_.dataRequests)
    // A binomial tree's root has fewer children than an int has bits.
    set.reserve(std::max<int64_t>(2 * peers, 32));
  group_.routes.resize(size());
  Status status;
  auto open = [&](MpiEngine &engine) {
    for (int peer = 0; peer < size() && status.isOk(); ++peer) {
      if (peer == rank())
        continue;
      Result<Route> route = engine.openRoute(group_.ranks[peer]);
      if (route.isOk())
        group_.routes[peer] = *route;
      else
        status = route.status();
    }
  };
  worker_.run(open);
  return status;
}

PacketHeader MpiChannel::header(int32_t kind, int64_t count) const {
  PacketHeader header;
  header.group = group_.id;
  header.kind = kind;
  header.count = count;
  header.dtype = FSDP_RT_U8;
  return header;
}

template <typename... Stages>
Status MpiChannel::perform(Stages &...stages) {
  MpiTransfer transfer(group_, stages...);
  worker_.execute(transfer);
  return transfer.status();
}

Status MpiChannel::run(const hal::HostCollective &what) {
  if (Status s = hal::checkCollective(what))
    return s;
  PacketHeader packet = header(what.kind, what.count);
  packet.dtype = what.dtype;
  packet.divisor = what.divisor;
  switch (what.kind) {
  case FSDP_RT_ALL_GATHER:
    return allGather(what, packet);
  case FSDP_RT_REDUCE_SCATTER: {
    MpiExchange exchange(group_, packet, nullptr);
    MpiReduction reduction(group_, partsOf(what), what.src,
                           static_cast<char *>(what.dst), what.dtype,
                           what.divisor);
    return perform(exchange, reduction);
  }
  case FSDP_RT_ALL_REDUCE:
    return allReduce(what, packet);
  case FSDP_RT_ALL_TO_ALL: {
    MpiParts parts = partsOf(what);
    auto src = static_cast<const char *>(what.src);
    auto dst = static_cast<char *>(what.dst);
    Part own = parts.bytesOf(rank());
    copyBytes(group_.pool, dst + own.begin, src + own.begin, parts.maxBytes());
    MpiExchange exchange(group_, packet, nullptr);
    MpiDelivery delivery(group_, parts, src, dst, MpiDelivery::PartOfReceiver);
    return perform(exchange, delivery);
  }
  case FSDP_RT_OFFLOAD:
  case FSDP_RT_RELOAD:
    break;
  }
  return Status::internal("expected a kind of collective, got " +
                          std::to_string(what.kind));
}

MpiParts MpiChannel::partsOf(const hal::HostCollective &what) const {
  MpiParts parts;
  parts.count = what.count;
  parts.elementBytes = dtypeSize(what.dtype);
  parts.size = size();
  return parts;
}

Status MpiChannel::allGather(const hal::HostCollective &what,
                             const PacketHeader &header) {
  MpiParts parts = partsOf(what);
  int64_t bytes = parts.maxBytes();
  auto out = static_cast<char *>(what.dst);
  if (bytes <= Packet::maxPayload) {
    MpiExchange exchange(group_, header, what.src);
    if (Status s = perform(exchange))
      return s;
    for (int i = 0; i < size() && bytes > 0; ++i)
      std::memcpy(out + i * bytes, group_.packets[i].payload, bytes);
    return Status::ok();
  }
  char *own = out + parts.bytesOf(rank()).begin;
  copyBytes(group_.pool, own, what.src, bytes);
  MpiExchange exchange(group_, header, nullptr);
  MpiDelivery gather(group_, parts, out, out, MpiDelivery::OwnPart);
  return perform(exchange, gather);
}

Status MpiChannel::allReduce(const hal::HostCollective &what,
                             const PacketHeader &header) {
  MpiParts parts = partsOf(what);
  parts.isShared = true;
  // One rank's whole contribution fits the packet: everybody adds up all.
  if (what.count * parts.elementBytes <= Packet::maxPayload) {
    MpiExchange exchange(group_, header, what.src);
    if (Status s = perform(exchange))
      return s;
    for (int i = 0; i < size(); ++i)
      group_.sources[i] = group_.packets[i].payload;
    treeSum(group_.sources.data(), size(), what.dst, 0, what.count, what.dtype,
            what.divisor);
    return Status::ok();
  }
  auto out = static_cast<char *>(what.dst);
  MpiExchange exchange(group_, header, nullptr);
  MpiReduction reduction(group_, parts, what.src,
                         out + parts.bytesOf(rank()).begin, what.dtype,
                         what.divisor);
  MpiDelivery gather(group_, parts, out, out, MpiDelivery::OwnPart);
  return perform(exchange, reduction, gather);
}

Status MpiChannel::broadcast(const void *src, void *dst, int64_t bytes,
                             int root) {
  if (root < 0 || root >= size())
    return Status::failed("broadcast: expected a root below " +
                          std::to_string(size()) + ", got " +
                          std::to_string(root));
  PacketHeader what = header(controlBroadcast, bytes);
  what.root = root;
  if (rank() == root)
    copyBytes(group_.pool, dst, src, bytes);
  MpiTreeMeeting meeting(group_, what);
  MpiSpread spread(group_, static_cast<char *>(dst), bytes, root);
  return perform(meeting, spread);
}

Status MpiChannel::barrier() {
  MpiBarrier meeting(group_, header(controlBarrier, 0));
  return perform(meeting);
}

} // namespace fsdp::rt
