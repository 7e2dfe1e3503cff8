//===- CallRules.cpp - Whether arguments of calls are in place ------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "hal/CallRules.h"

#include "core/Dtype.h"
#include "core/Reduce.h"
#include "hal/GuardRules.h"
#include "hal/Transfers.h"

#include <algorithm>
#include <string>

namespace fsdp::rt::hal {

namespace {

bool isIn(int64_t offset, int64_t bytes, int64_t size) {
  return offset >= 0 && bytes >= 0 && bytes <= size - offset;
}

/// "src S and dst D of B bytes".
std::string describe(int64_t src, int64_t dst, int64_t bytes) {
  return "src " + std::to_string(src) + " and dst " + std::to_string(dst) +
         " of " + std::to_string(bytes) + " bytes";
}

Status ofPart(int64_t i, const Status &status) {
  return status.withContext("part " + std::to_string(i));
}

/// Groups of a layout are those of its manifest.
Status checkPart(int32_t kind, const fsdp_rt_collective_desc &desc,
                 const Layout &layout, int rank) {
  auto groups = static_cast<int64_t>(layout.groups.size());
  if (desc.group < 0 || desc.group >= groups)
    return Status::internal("expected one of " + std::to_string(groups) +
                            " groups, got " + std::to_string(desc.group));
  const std::vector<int> &ranks = layout.groups[desc.group];
  auto place = std::lower_bound(ranks.begin(), ranks.end(), rank);
  return checkCollective(kind, desc, static_cast<int>(place - ranks.begin()),
                         static_cast<int>(ranks.size()), layout.memory.device);
}

Status checkParts(const fsdp_rt_start_desc &desc, const Layout &layout,
                  int rank) {
  auto parts = collectivesOf(desc);
  for (int64_t i = 0; i < desc.part_count; ++i) {
    if (!parts[i])
      return ofPart(i, Status::internal("expected a collective, got null"));
    if (Status s = checkPart(desc.kind, *parts[i], layout, rank))
      return ofPart(i, s);
    if (parts[i]->group != parts[0]->group)
      return ofPart(i, Status::internal("expected group " +
                                        std::to_string(parts[0]->group) +
                                        " as of the first, got " +
                                        std::to_string(parts[i]->group)));
  }
  return Status::ok();
}

Status checkCopies(const fsdp_rt_start_desc &desc, const MemorySizes &memory) {
  auto parts = static_cast<const fsdp_rt_host_copy_desc *const *>(desc.parts);
  for (int64_t i = 0; i < desc.part_count; ++i) {
    if (!parts[i])
      return ofPart(i, Status::internal("expected a copy, got null"));
    if (Status s = checkHostCopy(desc.kind, *parts[i], memory))
      return ofPart(i, s);
  }
  return Status::ok();
}

Status checkQueue(const fsdp_rt_start_desc &desc, const Layout &layout) {
  if (desc.queue == FSDP_RT_QUEUE_COMPUTE) {
    if (layout.hasQueues())
      return Status::internal("expected a queue that the manifest names, got "
                              "the computation's");
    if (desc.event != -1 || desc.after_count != 0)
      return Status::internal(
          "expected no events of a transfer in the order of the computation, "
          "got event " +
          std::to_string(desc.event) + " after " +
          std::to_string(desc.after_count));
    return Status::ok();
  }
  if (!layout.hasQueues())
    return Status::internal("expected a manifest with events, got none");
  if (!layout.hasQueue(desc.queue))
    return Status::internal("expected a queue that the manifest names, got " +
                            std::to_string(desc.queue));
  if (!runsOn(desc.kind, desc.queue))
    return Status::internal(std::string("expected a queue of ") +
                            transferName(desc.kind) + ", got " +
                            queueName(desc.queue));
  return Status::ok();
}

} // namespace

Status checkCall(const fsdp_rt_launch_desc &desc, const Layout &layout) {
  if (!desc.implementations || (!desc.operands && desc.operand_count > 0))
    return Status::internal("expected a kernel and operands, got null");
  if (desc.operand_count < 0 || desc.operand_count > maxOperands)
    return Status::internal("expected 0 to " + std::to_string(maxOperands) +
                            " operands, got " +
                            std::to_string(desc.operand_count));
  auto offsets = static_cast<const int64_t *>(desc.operands);
  for (int64_t i = 0; i < desc.operand_count; ++i)
    if (!isIn(offsets[i], 0, layout.memory.device))
      return Status::internal("operand " + std::to_string(i) +
                              ": expected an offset of at most " +
                              std::to_string(layout.memory.device) + ", got " +
                              std::to_string(offsets[i]));
  return Status::ok();
}

Status checkWorkspace(int64_t offset, int64_t bytes,
                      const MemorySizes &memory) {
  if (bytes == 0)
    return Status::ok();
  if (!isIn(offset, bytes, memory.device))
    return Status::internal("expected a workspace inside the arena of " +
                            std::to_string(memory.device) + " bytes, got " +
                            std::to_string(bytes) + " bytes at " +
                            std::to_string(offset));
  if (offset % workspaceAlignment != 0)
    return Status::internal("expected a workspace at a multiple of " +
                            std::to_string(workspaceAlignment) +
                            " bytes, got offset " + std::to_string(offset));
  return Status::ok();
}

Status checkCall(const fsdp_rt_copy_desc &desc, const Layout &layout) {
  int64_t size = layout.memory.device;
  bool isFill = desc.src == -1;
  if (!isIn(desc.dst, desc.bytes, size) ||
      (!isFill && !isIn(desc.src, desc.bytes, size)))
    return Status::internal("expected operands inside the arena of " +
                            std::to_string(size) + " bytes, got " +
                            describe(desc.src, desc.dst, desc.bytes));
  if (!isFill && clash(desc.src, desc.bytes, desc.dst, desc.bytes))
    return Status::internal("expected operands apart, got " +
                            describe(desc.src, desc.dst, desc.bytes));
  return Status::ok();
}

Status checkCall(const fsdp_rt_check_desc &desc, const Layout &layout) {
  int64_t size = layout.memory.device;
  if (isIn(desc.flag, 1, size))
    return Status::ok();
  return Status::internal("expected a flag inside the arena of " +
                          std::to_string(size) + " bytes, got offset " +
                          std::to_string(desc.flag));
}

Status checkCall(const fsdp_rt_guard_desc &desc, const Layout &layout) {
  if (desc.buffer_count < 0 || (!desc.buffers && desc.buffer_count > 0))
    return Status::internal("expected at least 0 buffers, got " +
                            std::to_string(desc.buffer_count));
  auto buffers = static_cast<const fsdp_rt_guarded_desc *const *>(desc.buffers);
  for (int64_t i = 0; i < desc.buffer_count; ++i) {
    const fsdp_rt_guarded_desc &buffer = *buffers[i];
    if (buffer.action < FSDP_RT_GUARD_FILL ||
        buffer.action > FSDP_RT_GUARD_KEEP)
      return Status::internal("expected an action from 0 to 3, got " +
                              std::to_string(buffer.action));
    if (buffer.memory != FSDP_RT_DEVICE && buffer.memory != FSDP_RT_HOST)
      return Status::internal(
          "expected memory of the device or the host, got " +
          std::to_string(buffer.memory));
    int64_t arenaBytes = layout.memory.of(buffer.memory);
    if (buffer.offset < 0 || buffer.offset > arenaBytes || buffer.bytes < 0 ||
        buffer.border < 0 || buffer.bytes > arenaBytes - buffer.offset ||
        buffer.border > arenaBytes - buffer.offset - buffer.bytes)
      return Status::internal(
          "expected a buffer and " + std::to_string(buffer.border) +
          " bytes behind it inside the arena of " + std::to_string(arenaBytes) +
          " bytes, got " + describe(buffer));
  }
  return Status::ok();
}

Status checkCollective(int32_t kind, const fsdp_rt_collective_desc &desc,
                       int rank, int ranks, int64_t deviceBytes) {
  if (!isDtype(desc.dtype))
    return Status::internal("expected an element type, got " +
                            std::to_string(desc.dtype));
  int64_t size = dtypeSize(static_cast<Dtype>(desc.dtype));
  // Beyond this the products below would not fit 64 bits.
  if (desc.count < 0 || desc.count > deviceBytes)
    return Status::internal("expected 0 to " + std::to_string(deviceBytes) +
                            " elements, got " + std::to_string(desc.count));
  int64_t bytes = desc.count * size;
  CollectiveShape shape = shapeOf(kind);
  if (shape.isSum)
    if (Status s = checkReduction(static_cast<Dtype>(desc.dtype), desc.divisor))
      return s;
  int64_t srcBytes = bytes * shape.srcParts(ranks);
  int64_t dstBytes = bytes * shape.dstParts(ranks);
  auto inArena = [&](int64_t offset, int64_t length) {
    return offset >= 0 && length <= deviceBytes - offset && offset % size == 0;
  };
  auto operands = [&] {
    return "got src " + std::to_string(desc.src) + " and dst " +
           std::to_string(desc.dst) + " of " + std::to_string(desc.count) +
           " elements";
  };
  if (!inArena(desc.src, srcBytes) || !inArena(desc.dst, dstBytes))
    return Status::internal("expected operands inside the arena of " +
                            std::to_string(deviceBytes) + " bytes, " +
                            operands());

  if (desc.src >= desc.dst + dstBytes || desc.dst >= desc.src + srcBytes)
    return Status::ok();
  // Between two wholes, a rank would overwrite parts that others have not read.
  if (shape.isSrcWhole && shape.isDstWhole)
    return Status::internal("expected operands apart, " + operands());
  // In place: this rank's part of the larger side is the smaller side.
  int64_t srcOwn = desc.src + (shape.isSrcWhole ? rank * bytes : 0);
  int64_t dstOwn = desc.dst + (shape.isDstWhole ? rank * bytes : 0);
  if (srcOwn != dstOwn)
    return Status::internal("expected operands apart or in place, " +
                            operands());
  return Status::ok();
}

Status checkHostCopy(int32_t kind, const fsdp_rt_host_copy_desc &desc,
                     const MemorySizes &memory) {
  CopySides sides = sidesOf(kind);
  auto isIn = [&](int32_t arena, int64_t offset) {
    return offset >= 0 && desc.bytes >= 0 &&
           desc.bytes <= memory.of(arena) - offset;
  };
  if (isIn(sides.from, desc.src) && isIn(sides.to, desc.dst))
    return Status::ok();
  return Status::internal(
      "expected operands inside the arena of " + std::to_string(memory.device) +
      " bytes and the host's of " + std::to_string(memory.host) + ", got src " +
      std::to_string(desc.src) + " and dst " + std::to_string(desc.dst) +
      " of " + std::to_string(desc.bytes) + " bytes");
}

Status checkStart(const fsdp_rt_start_desc &desc, const Layout &layout,
                  int rank) {
  if (!transferName(desc.kind))
    return Status::internal("expected a kind of transfer, got " +
                            std::to_string(desc.kind));
  if (!desc.parts || desc.part_count < 1)
    return Status::internal("expected at least 1 part, got " +
                            std::to_string(desc.parts ? desc.part_count : 0));
  if (Status s = checkQueue(desc, layout))
    return s;
  if (auto guard = static_cast<const fsdp_rt_guard_desc *>(desc.guard))
    if (Status s = checkCall(*guard, layout))
      return s.withContext("guard");
  return isHostCopy(desc.kind) ? checkCopies(desc, layout.memory)
                               : checkParts(desc, layout, rank);
}

} // namespace fsdp::rt::hal
