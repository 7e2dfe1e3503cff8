//===- MemoryAccess.cpp - Where a lane's address leads --------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "instructions/MemoryAccess.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace fsdp::emulator {

LaneAddresses::LaneAddresses(const Warp &warp, const Instruction &instruction,
                             Slot slot, uint64_t offset) {
  auto add = [&](const auto *lanes) {
    for (unsigned lane = 0; lane < warpSize; ++lane)
      of[lane] = lanes[lane] + offset;
  };
  if (instruction.addressBytes == 8)
    add(warp.lanes<const uint64_t>(slot));
  else
    add(warp.lanes<const uint32_t>(slot));
}

namespace {

const char *verbOf(Access access) {
  switch (access) {
  case Access::Read:
    return "a load";
  case Access::Write:
    return "a store";
  case Access::Atomic:
    return "an atomic";
  }
  return "";
}

/// One lane's access, for messages.
struct LaneAccess {
  const Warp &warp;
  const Instruction &instruction;
  unsigned lane;
  uint32_t bytes;
  Access access;

  [[noreturn]] void fail(FaultCode code, const std::string &expected,
                         const std::string &got) const {
    emulator::fail(warp, instruction, lane, code,
                   "expected " + expected + ", got " + verbOf(access) + " of " +
                       got);
  }
  [[noreturn]] void failUnordered(const std::string &memory,
                                  const std::string &got,
                                  const ThreadConflict &other) const {
    fail(FaultCode::LaunchFailed,
         "a barrier between threads that use the same " + memory + " memory",
         got + " beside " + other.describe());
  }
  [[noreturn]] void failMisaligned(uint64_t address) const {
    fail(FaultCode::MisalignedAddress,
         "an address that is a multiple of " + std::to_string(bytes),
         std::to_string(bytes) + " bytes at " + hexOf(address));
  }
  [[noreturn]] void failUninitialized(const std::string &got) const {
    fail(FaultCode::LaunchFailed, "bytes that were written before", got);
  }
};

Space spaceOf(const Instruction &instruction, uint64_t address) {
  if (instruction.space != Space::Generic)
    return instruction.space;
  if (address & parameterTag)
    return Space::Parameter;
  if (address & localTag)
    return Space::Local;
  return address & sharedTag ? Space::Shared : Space::Global;
}

/// Fails where operations that use the same bytes have no order.
void recordGlobal(const LaneAccess &lane, const Place &place, Accessor who) {
  try {
    lane.warp.block->memory->recordAccess(place, lane.bytes, lane.access, who);
  } catch (const DeviceFault &fault) {
    emulator::fail(lane.warp, lane.instruction, lane.lane, fault.code,
                   fault.what());
  }
}

/// An address of global memory, and the argument of the kernel from which the
/// thread has come to it: the last one before it in the same allocation.
std::string describeGlobal(const LaneAccess &lane, uint64_t address) {
  const Block &block = *lane.warp.block;
  std::string text = block.memory->describe(address, lane.bytes);
  int argument = -1;
  uint64_t begin = 0;
  for (size_t i = 0; i < block.kernel->parameters.size(); ++i) {
    const Parameter &parameter = block.kernel->parameters[i];
    uint64_t value = 0;
    if (parameter.bytes != sizeof value)
      continue;
    std::memcpy(&value, block.launch->parameters.data() + parameter.offset,
                sizeof value);
    if (value > address || value < begin ||
        !block.memory->find(value, address - value + lane.bytes))
      continue;
    argument = static_cast<int>(i);
    begin = value;
  }
  if (argument >= 0)
    text += ", byte " + std::to_string(address - begin) + " of argument " +
            std::to_string(argument);
  return text;
}

/// Fails where threads of the block that use the same bytes have no order.
void orderGlobal(const LaneAccess &lane, uint64_t address, const Place &place,
                 bool isSameValue) {
  Block &block = *lane.warp.block;
  if (!block.hasThreadRaces)
    return;
  ThreadAccess access;
  access.thread = lane.warp.threadOf(lane.lane);
  access.access = lane.access;
  access.isStrong = lane.instruction.isStrong;
  if (isSameValue)
    access.agreement = ThreadAccess::Agreement::AllThreads;
  if (auto other = block.global->access(place.host, lane.bytes, access))
    lane.failUnordered("global", describeGlobal(lane, address), other);
}

uint8_t *resolveGlobal(const LaneAccess &lane, uint64_t address,
                       const uint8_t *value) {
  DeviceMemory &memory = *lane.warp.block->memory;
  if (!(lane.warp.gridWaited >> lane.lane & 1))
    lane.fail(
        FaultCode::LaunchFailed,
        "griddepcontrol.wait before accesses to global memory in a kernel "
        "that may begin before the one before it has ended",
        describeGlobal(lane, address));
  Place place = memory.find(address, lane.bytes);
  if ((place || (address & deviceTag)) && address % lane.bytes != 0)
    lane.failMisaligned(address);
  if (!place)
    lane.fail(FaultCode::IllegalAddress, "bytes of an allocation",
              memory.describe(address, lane.bytes));
  if (lane.access == Access::Read || lane.access == Access::Atomic) {
    if (memory.checksUninitialized() &&
        !place.allocation->isWritten(place.offset, lane.bytes))
      lane.failUninitialized(describeGlobal(lane, address));
  }
  if (lane.access != Access::Read)
    place.allocation->setWritten(place.offset, lane.bytes);
  // All may write one value, as those do that find a mistake in data.
  bool isSameValue = value && std::memcmp(value, place.host, lane.bytes) == 0;
  Accessor who = lane.warp.block->accessor;
  if (isSameValue)
    who.block = 0;
  recordGlobal(lane, place, who);
  orderGlobal(lane, address, place, isSameValue);
  return place.host;
}

std::string describeShared(const LaneAccess &lane, uint64_t offset) {
  return std::to_string(lane.bytes) + " bytes at byte " +
         std::to_string(static_cast<int64_t>(offset));
}

/// All checks but the one for bytes that were never written. Returns the
/// offset.
uint32_t orderShared(const LaneAccess &lane, uint64_t address,
                     const uint8_t *value) {
  Block &block = *lane.warp.block;
  SharedMemory &shared = block.shared;
  uint64_t offset = address & ~sharedTag;
  if (offset % lane.bytes != 0)
    lane.failMisaligned(offset);
  if (offset > shared.bytes() || lane.bytes > shared.bytes() - offset)
    lane.fail(FaultCode::IllegalAddress,
              "bytes of the " + std::to_string(shared.bytes()) +
                  " of shared memory",
              describeShared(lane, offset));
  auto at = static_cast<uint32_t>(offset);
  ThreadAccess access;
  access.thread = lane.warp.threadOf(lane.lane);
  access.access = lane.access;
  access.isStrong = lane.instruction.isStrong;
  if (value && std::memcmp(value, shared.at(at), lane.bytes) == 0)
    access.agreement = ThreadAccess::Agreement::LanesOfOneStore;
  if (auto other = shared.access(at, lane.bytes, access))
    lane.failUnordered("shared", describeShared(lane, offset), other);
  return at;
}

uint8_t *resolveShared(const LaneAccess &lane, uint64_t address,
                       const uint8_t *value) {
  uint32_t at = orderShared(lane, address, value);
  Block &block = *lane.warp.block;
  SharedMemory &shared = block.shared;
  if (lane.access == Access::Write)
    shared.setWritten(at, lane.bytes);
  else if (block.checks.uninitialized && !shared.isWritten(at, lane.bytes))
    lane.failUninitialized(describeShared(lane, at) + " of shared memory");
  return shared.at(at);
}

uint8_t *resolveLocal(const LaneAccess &lane, uint64_t address) {
  uint64_t offset = address & ~localTag;
  uint32_t size = lane.warp.block->kernel->localBytes;
  if (offset % lane.bytes != 0)
    lane.failMisaligned(offset);
  if (offset > size || lane.bytes > size - offset)
    lane.fail(FaultCode::IllegalAddress,
              "bytes of the " + std::to_string(size) + " of local memory",
              std::to_string(lane.bytes) + " bytes at byte " +
                  std::to_string(static_cast<int64_t>(offset)));
  return lane.warp.local + size_t{size} * lane.lane + offset;
}

uint8_t *resolveParameter(const LaneAccess &lane, uint64_t address) {
  const auto &parameters = lane.warp.block->launch->parameters;
  uint64_t offset = address & ~parameterTag;
  if (offset % lane.bytes != 0)
    lane.failMisaligned(offset);
  if (lane.access != Access::Read || offset > parameters.size() ||
      lane.bytes > parameters.size() - offset)
    lane.fail(FaultCode::IllegalAddress,
              "a load from the " + std::to_string(parameters.size()) +
                  " bytes of parameters",
              std::to_string(lane.bytes) + " bytes at byte " +
                  std::to_string(static_cast<int64_t>(offset)));
  return const_cast<uint8_t *>(parameters.data()) + offset;
}

} // namespace

uint8_t *resolve(Warp &warp, const Instruction &instruction, unsigned lane,
                 uint64_t address, uint32_t bytes, Access access,
                 const uint8_t *value) {
  LaneAccess what{warp, instruction, lane, bytes, access};
  switch (spaceOf(instruction, address)) {
  case Space::Shared:
    return resolveShared(what, address, value);
  case Space::Local:
    return resolveLocal(what, address);
  case Space::Parameter:
    return resolveParameter(what, address);
  default:
    return resolveGlobal(what, address, value);
  }
}

void expectStoreToShared(Warp &warp, const Instruction &instruction,
                         unsigned lane, uint64_t address, uint32_t bytes) {
  orderShared({warp, instruction, lane, bytes, Access::Write}, address,
              nullptr);
}

uint8_t *resolveContiguous(Warp &warp, const Instruction &instruction,
                           LaneMask mask, const LaneAddresses &addresses,
                           uint32_t bytes, Access access) {
  uint64_t first = addresses.of[0];
  uint64_t different = 0;
  for (unsigned lane = 0; lane < warpSize; ++lane)
    different |= addresses.of[lane] ^ (first + uint64_t{lane} * bytes);
  bool isGlobal = instruction.space == Space::Global ||
                  (instruction.space == Space::Generic &&
                   !(first & (sharedTag | localTag | parameterTag)));
  if (different || mask != allLanes || !isGlobal || first % bytes != 0 ||
      instruction.isStrong || warp.gridWaited != allLanes)
    return nullptr;
  DeviceMemory &memory = *warp.block->memory;
  uint32_t total = bytes * warpSize;
  Place place = memory.find(first, total);
  if (!place)
    return nullptr;
  if (access == Access::Write)
    place.allocation->setWritten(place.offset, total);
  else if (memory.checksUninitialized() &&
           !place.allocation->isWritten(place.offset, total))
    return nullptr;
  try {
    memory.recordAccess(place, total, access, warp.block->accessor);
  } catch (const DeviceFault &) {
    // Lane by lane, it is known which one it is, and what it writes.
    return nullptr;
  }
  ThreadAccess ofThreads;
  ofThreads.thread = warp.threadOf(0);
  ofThreads.access = access;
  if (warp.block->hasThreadRaces &&
      !warp.block->global->accessInOrder(place.host, bytes, ofThreads))
    return nullptr;
  return place.host;
}

void countRequest(Warp &warp, LaneMask mask, const LaneAddresses &addresses,
                  uint32_t bytes, Access access) {
  Statistics &statistics = *warp.block->statistics;
  uint64_t total = uint64_t{bytes} * std::popcount(mask);
  (access == Access::Read ? statistics.bytesLoaded : statistics.bytesStored) +=
      total;
  ++statistics.requests;
  uint64_t sectors[2 * warpSize];
  unsigned count = 0;
  bool isSorted = true;
  for (LaneMask left = mask; left; left &= left - 1) {
    uint64_t address = addresses.of[std::countr_zero(left)];
    for (uint64_t sector = address >> 5; sector <= (address + bytes - 1) >> 5;
         ++sector) {
      if (count > 0 && sectors[count - 1] == sector)
        continue;
      isSorted &= count == 0 || sectors[count - 1] < sector;
      sectors[count++] = sector;
    }
  }
  if (!isSorted) {
    std::sort(sectors, sectors + count);
    count =
        static_cast<unsigned>(std::unique(sectors, sectors + count) - sectors);
  }
  statistics.sectors += count;
}

} // namespace fsdp::emulator
