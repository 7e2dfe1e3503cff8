//===- StagedTransfers.cpp - Collectives through the host's memory --------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "devices/cuda/nccl/StagedTransfers.h"

#include "core/Clock.h"
#include "core/WaitLimit.h"
#include "hal/Transfers.h"

#include <algorithm>
#include <chrono>
#include <thread>

namespace fsdp::rt {

namespace {

/// Operands lie on cache lines.
constexpr int64_t alignment = 64;
int64_t aligned(int64_t bytes) {
  return (bytes + alignment - 1) / alignment * alignment;
}

/// What the operands of a part take, in bytes.
struct Operands {
  int64_t src, dst;
};
Operands operandsOf(int32_t kind, const fsdp_rt_collective_desc &part,
                    int64_t ranks) {
  CollectiveShape shape = shapeOf(kind);
  int64_t bytes = part.count * dtypeSize(static_cast<Dtype>(part.dtype));
  return {bytes * shape.srcParts(ranks), bytes * shape.dstParts(ranks)};
}

} // namespace

void StagedExchange::add(const hal::HostCollective &what, cu::Pointer src,
                         cu::Pointer dst) {
  CollectiveShape shape = shapeOf(what.kind);
  int64_t bytes = what.count * dtypeSize(what.dtype), ranks = channel_.size();
  parts_.push_back({what, src, dst,
                    static_cast<size_t>(bytes * shape.srcParts(ranks)),
                    static_cast<size_t>(bytes * shape.dstParts(ranks))});
}

Status StagedExchange::waitFor(cu::Stream stream) const {
  constexpr int64_t spinNanoseconds = 50'000;
  constexpr std::chrono::microseconds pause(50);
  WaitLimit limit(world_.waitLimit());
  for (int64_t begin = nowNanoseconds();;) {
    cu::Error error = context_.api().streamQuery(stream);
    if (error != cu::notReady)
      return context_.check(error, "cuStreamQuery");
    if (Status s = world_.failure())
      return s;
    if (limit.isExceeded())
      return limit.failure("the device to end what comes before a transfer",
                           "work that does not end");
    if (nowNanoseconds() - begin > spinNanoseconds)
      std::this_thread::sleep_for(pause);
  }
}

Status StagedExchange::enqueue(cu::Stream stream) const {
  const DriverApi &api = context_.api();
  for (const Part &part : parts_)
    if (part.srcBytes > 0)
      if (Status s =
              context_.check(api.copyToHost(const_cast<void *>(part.what.src),
                                            part.src, part.srcBytes, stream),
                             "cuMemcpyDtoHAsync"))
        return s;
  if (Status s = waitFor(stream))
    return s;
  channel_.beginTogether();
  Status status;
  for (const Part &part : parts_)
    if (status.isOk())
      status = channel_.run(part.what);
  channel_.endTogether();
  if (status)
    return status;
  for (const Part &part : parts_)
    if (part.dstBytes > 0)
      if (Status s = context_.check(
              api.copyToDevice(part.dst, part.what.dst, part.dstBytes, stream),
              "cuMemcpyHtoDAsync"))
        return s;
  return Status::ok();
}

int64_t StagedTransfers::bytesOf(const fsdp_rt_start_desc &start) const {
  int64_t bytes = 0;
  for (int64_t i = 0; i < start.part_count; ++i) {
    const fsdp_rt_collective_desc &part = *collectivesOf(start)[i];
    auto ranks = static_cast<int64_t>(layout_.groups[part.group].size());
    Operands operands = operandsOf(start.kind, part, ranks);
    bytes += aligned(operands.src) + aligned(operands.dst);
  }
  return bytes;
}

Status StagedTransfers::prepare(const hal::Recording &recording) {
  std::map<int32_t, int64_t> needed;
  for (const hal::Call &call : recording.calls()) {
    const fsdp_rt_start_desc *found = hal::getExchange(call, layout_);
    if (!found)
      continue;
    const fsdp_rt_start_desc &start = *found;
    const std::vector<int> &ranks =
        layout_.groups[collectivesOf(start)[0]->group];
    std::unique_ptr<hal::HostChannel> &channel = channels_[ranks];
    if (!channel) {
      Result<std::unique_ptr<hal::HostChannel>> made =
          world_.openChannel(ranks);
      if (!made.isOk())
        return made.status().withContext(hal::nameOf(call));
      channel = std::move(*made);
    }
    needed[start.queue] = std::max(needed[start.queue], bytesOf(start));
  }
  for (const auto &[queue, bytes] : needed) {
    std::shared_ptr<PinnedMemory> &staging = staging_[queue];
    if (staging && staging->size() >= bytes)
      continue;
    Result<std::unique_ptr<PinnedMemory>> made = PinnedMemory::allocate(
        context_, bytes, "memory of the host for collectives");
    if (!made.isOk())
      return made.status();
    staging = std::move(*made);
  }
  return Status::ok();
}

std::unique_ptr<StagedExchange>
StagedTransfers::makeExchange(const fsdp_rt_start_desc &start,
                              cu::Pointer base) const {
  hal::HostChannel &channel =
      *channels_.at(layout_.groups[collectivesOf(start)[0]->group]);
  auto made = std::make_unique<StagedExchange>(world_, channel, context_);
  char *next = staging_.at(start.queue)->data();
  for (int64_t i = 0; i < start.part_count; ++i) {
    const fsdp_rt_collective_desc &part = *collectivesOf(start)[i];
    Operands operands = operandsOf(start.kind, part, channel.size());
    char *src = next, *dst = src + aligned(operands.src);
    next = dst + aligned(operands.dst);
    made->add({static_cast<fsdp_rt_transfer_kind>(start.kind), src, dst,
               part.count, static_cast<Dtype>(part.dtype), part.divisor},
              base + static_cast<cu::Pointer>(part.src),
              base + static_cast<cu::Pointer>(part.dst));
  }
  return made;
}

} // namespace fsdp::rt
