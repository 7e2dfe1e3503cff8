//===- RunTransfers.cpp - Transfers on memory of this host ----------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "devices/cpu/RunTransfers.h"

#include "core/Dtype.h"
#include "core/Reduce.h"
#include "devices/cpu/Guard.h"
#include "hal/CallWork.h"
#include "hal/Transfers.h"

#include <string>

namespace fsdp::rt {

namespace {

void runHostCopy(int32_t kind, const fsdp_rt_host_copy_desc &desc,
                 const RankMemory &memory, ThreadPool *pool) {
  CopySides sides = sidesOf(kind);
  copyBytes(pool, memory.base(sides.to) + desc.dst,
            memory.base(sides.from) + desc.src, desc.bytes);
}

Status runCollective(int32_t kind, const fsdp_rt_collective_desc &desc,
                     hal::HostChannel &group, char *arena) {
  return group.run({static_cast<fsdp_rt_transfer_kind>(kind), arena + desc.src,
                    arena + desc.dst, desc.count,
                    static_cast<Dtype>(desc.dtype), desc.divisor});
}

Status runParts(const fsdp_rt_start_desc &desc, World &world,
                const HostChannels &channels, const RankMemory &memory,
                ThreadPool *pool, TransferRecord &record) {
  if (isHostCopy(desc.kind)) {
    auto parts = static_cast<const fsdp_rt_host_copy_desc *const *>(desc.parts);
    for (int64_t i = 0; i < desc.part_count; ++i)
      runHostCopy(desc.kind, *parts[i], memory, pool);
    world.crossHostLink(desc.kind, record.bytes, record.begin);
    return Status::ok();
  }
  auto parts = static_cast<const fsdp_rt_collective_desc *const *>(desc.parts);
  hal::HostChannel &group = *channels[parts[0]->group];
  int64_t waited = group.waitNanoseconds();
  Status status;
  group.beginTogether();
  for (int64_t i = 0; i < desc.part_count && status.isOk(); ++i)
    status = runCollective(desc.kind, *parts[i], group, memory.device);
  group.endTogether();
  record.waiting = group.waitNanoseconds() - waited;
  return status;
}

} // namespace

Status runTransfers(const fsdp_rt_start_desc &desc, World &world,
                    const HostChannels &channels, const RankMemory &memory,
                    ThreadPool *pool, TransferRecord &record) {
  auto guard = static_cast<const fsdp_rt_guard_desc *>(desc.guard);
  if (guard)
    if (Status s = runGuardBefore(*guard, memory))
      return s;
  if (Status s = runParts(desc, world, channels, memory, pool, record))
    return s;
  return guard ? runGuardBehind(*guard, memory) : Status::ok();
}

Status openChannelFor(const fsdp_rt_start_desc &desc, World &world,
                      const std::vector<std::vector<int>> &groups,
                      ThreadPool *pool, HostChannels &channels) {
  if (isHostCopy(desc.kind))
    return Status::ok();
  auto parts = static_cast<const fsdp_rt_collective_desc *const *>(desc.parts);
  int32_t group = parts[0]->group;
  channels.resize(groups.size());
  if (channels[group])
    return Status::ok();
  Result<std::unique_ptr<hal::HostChannel>> channel =
      world.openChannel(groups[group], pool);
  if (!channel.isOk())
    return channel.status();
  channels[group] = std::move(*channel);
  return Status::ok();
}

CallRecord TransferRecord::toCall() const {
  CallRecord record =
      hal::recordOf({hal::Function::start, desc, bytes}, begin, end);
  record.waiting = waiting;
  record.given = given;
  return record;
}

} // namespace fsdp::rt
