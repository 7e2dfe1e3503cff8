//===- DeviceMemory.cpp - What a device can address -----------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "execution/DeviceMemory.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <new>
#include <sys/mman.h>
#include <unistd.h>

namespace fsdp::emulator {

std::string hexOf(uint64_t value) {
  char text[24];
  std::snprintf(text, sizeof text, "0x%llx",
                static_cast<unsigned long long>(value));
  return text;
}

static size_t bytesOfAccesses(size_t bytes) {
  return (bytes + 3) / 4 * sizeof(WordAccesses);
}

Allocation::Allocation(Kind kind, size_t bytes, bool isWritten)
    : kindOf(kind), size(bytes), knowsWritten(!isWritten),
      words(bytesOfAccesses(bytes)) {
  if (knowsWritten)
    written = ByteSet(bytes);
  if (kind != Kind::Physical) {
    memory = LazyMemory(bytes);
    begin = memory.data();
    return;
  }
  descriptor = memfd_create("fsdp-emulator", MFD_CLOEXEC);
  if (descriptor < 0 || ftruncate(descriptor, static_cast<off_t>(bytes)))
    throw std::bad_alloc();
}

Allocation::Allocation(uint8_t *memory, size_t bytes)
    : kindOf(Kind::Registered), size(bytes), begin(memory), knowsWritten(false),
      words(bytesOfAccesses(bytes)) {}

Allocation::~Allocation() {
  if (descriptor >= 0)
    close(descriptor);
}

void Allocation::poison() {
  if (begin) {
    std::memset(begin, 0xff, size);
    return;
  }
  void *mapped =
      mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  if (mapped == MAP_FAILED)
    throw std::bad_alloc();
  std::memset(mapped, 0xff, size);
  munmap(mapped, size);
}

void Allocation::copyWritten(size_t offset, const Allocation &from,
                             size_t fromOffset, size_t count) {
  if (!knowsWritten)
    return;
  if (from.knowsWritten)
    written.copy(offset, from.written, fromOffset, count);
  else
    written.insert(offset, count);
}

uint64_t DeviceMemory::map(std::shared_ptr<Allocation> allocation) {
  bool isHosts = allocation->kind() == Allocation::Kind::Host ||
                 allocation->kind() == Allocation::Kind::Registered;
  uint64_t address = reinterpret_cast<uint64_t>(allocation->host()) +
                     (isHosts ? 0 : deviceTag);
  Mapping mapping;
  mapping.bytes = allocation->bytes();
  mapping.host = allocation->host();
  mapping.allocation = std::move(allocation);
  mapAt(address, std::move(mapping));
  return address;
}

void DeviceMemory::mapAt(uint64_t address, Mapping mapping) {
  forgetLast();
  mappings[address] = std::move(mapping);
}

DeviceMemory::Mapping *DeviceMemory::findMapping(uint64_t address) {
  auto found = mappings.find(address);
  // The caller may change it.
  forgetLast();
  return found == mappings.end() ? nullptr : &found->second;
}

const DeviceMemory::Mapping *DeviceMemory::mappingAt(uint64_t address) const {
  auto next = mappings.upper_bound(address);
  if (next == mappings.begin())
    return nullptr;
  --next;
  return address - next->first < next->second.bytes ? &next->second : nullptr;
}

void DeviceMemory::unmap(uint64_t address) {
  forgetLast();
  mappings.erase(address);
}

void DeviceMemory::clear() {
  forgetLast();
  mappings.clear();
}

Place DeviceMemory::findSlowly(uint64_t address, size_t bytes) {
  auto next = mappings.upper_bound(address);
  if (next == mappings.begin())
    return {};
  --next;
  uint64_t offset = address - next->first;
  const Mapping &mapping = next->second;
  if (offset > mapping.bytes || bytes > mapping.bytes - offset ||
      !mapping.isAccessible)
    return {};
  last = &mapping;
  lastBegin = next->first;
  lastBytes = mapping.bytes;
  return placeIn(mapping, offset);
}

std::string DeviceMemory::describe(uint64_t address, size_t bytes) const {
  std::string range = std::to_string(bytes) + " bytes at " + hexOf(address);
  if (!(address & deviceTag) && address >> 60 == 0)
    range += ", which is no address of a device";
  auto next = mappings.upper_bound(address);
  if (next == mappings.begin())
    return range;
  --next;
  uint64_t offset = address - next->first;
  if (!next->second.isAccessible)
    return range + ", which no cuMemSetAccess made accessible";
  // Farther away it says nothing.
  if (offset < next->second.bytes + (uint64_t{1} << 30))
    range += ", byte " + std::to_string(offset) + " of an allocation of " +
             std::to_string(next->second.bytes);
  return range;
}

void DeviceMemory::forEachPiece(
    uint64_t address, size_t bytes, const std::string &what,
    const std::function<void(Place, size_t)> &visit) {
  while (bytes > 0) {
    Place place = find(address, 1);
    if (!place)
      throw DeviceFault(FaultCode::IllegalAddress,
                        what + ": expected bytes of an allocation, got " +
                            describe(address, bytes));
    size_t piece = std::min<size_t>(bytes, lastBytes - (address - lastBegin));
    visit(place, piece);
    address += piece;
    bytes -= piece;
  }
}

void DeviceMemory::recordAccess(const Place &place, size_t bytes, Access access,
                                Accessor who) {
  if (!checks.races)
    return;
  OperationId id = who.operation;
  OperationId other = order.access(place.allocation->accesses(), place.offset,
                                   bytes, access, who);
  if (!other)
    return;
  std::string range = (access == Access::Read ? "reads " : "writes ") +
                      std::to_string(bytes) + " bytes from byte " +
                      std::to_string(place.offset) + " of an allocation of " +
                      std::to_string(place.allocation->bytes()) + " on";
  throw DeviceFault(
      FaultCode::LaunchFailed,
      other == id
          ? "expected blocks of a launch to use different bytes, got one "
            "that " +
                range + ", which another one uses"
          : "expected an order between operations that use the same bytes, "
            "got none between " +
                order.describe(other) + " and " + order.describe(id) +
                ", which " + range);
}

} // namespace fsdp::emulator
