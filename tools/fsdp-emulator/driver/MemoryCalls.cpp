//===- MemoryCalls.cpp - Calls that allocate, map and free memory ---------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "driver/Platform.h"

#include <algorithm>
#include <sys/mman.h>

using namespace fsdp::emulator;

//===----------------------------------------------------------------------===//
// Memory of a device
//===----------------------------------------------------------------------===//

static std::shared_ptr<Allocation>
allocate(Device &device, Allocation::Kind kind, size_t bytes) {
  device.takeBytes(bytes);
  try {
    auto allocation = std::make_shared<Allocation>(kind, bytes, false);
    if (!device.settings.checks.uninitialized)
      allocation->poison();
    return allocation;
  } catch (...) {
    device.giveBytes(bytes);
    throw;
  }
}

FSDP_EMULATOR_API cuMemAlloc_v2(cuda::DevicePointer *pointer, size_t bytes) {
  return runOnDevice(__func__, [&](Device &device) {
    expectPointer(pointer, "pointer");
    expectSafe();
    if (bytes == 0)
      throw Refusal(cuda::InvalidValue, "expected bytes, got none");
    *pointer =
        device.memory().map(allocate(device, Allocation::Kind::Device, bytes));
    return cuda::Success;
  });
}

FSDP_EMULATOR_API cuMemFree_v2(cuda::DevicePointer pointer) {
  return runOnDevice(__func__, [&](Device &device) {
    expectSafe();
    if (!pointer)
      return cuda::Success;
    auto *mapping = device.memory().findMapping(pointer);
    if (!mapping || mapping->allocation->kind() != Allocation::Kind::Device)
      throw Refusal(cuda::InvalidValue,
                    "expected what cuMemAlloc gave, got " + hexOf(pointer));
    // It waits for the device.
    device.synchronizeAll();
    device.giveBytes(mapping->bytes);
    device.memory().unmap(pointer);
    return cuda::Success;
  });
}

FSDP_EMULATOR_API cuMemGetInfo_v2(size_t *free, size_t *total) {
  return runOnDevice(__func__, [&](Device &device) {
    expectPointer(free, "free");
    expectPointer(total, "total");
    *free = device.freeBytes();
    *total = device.settings.memoryBytes;
    return cuda::Success;
  });
}

//===----------------------------------------------------------------------===//
// Memory of the host, which every device can address
//===----------------------------------------------------------------------===//

namespace {

/// What cuMemHostAlloc gave, by its address.
struct HostMemory {
  std::mutex mutex;
  std::map<uint64_t, std::shared_ptr<Allocation>> allocations;
};

HostMemory &hostMemory() {
  static HostMemory memory;
  return memory;
}

/// Each device has its own record of who accessed it.
void mapOnAll(uint8_t *host, size_t bytes) {
  for (const auto &device : Platform::get().devices) {
    std::lock_guard<std::mutex> lock(device->mutex);
    device->memory().map(std::make_shared<Allocation>(host, bytes));
  }
}

void unmapOnAll(uint64_t address) {
  for (const auto &device : Platform::get().devices) {
    std::lock_guard<std::mutex> lock(device->mutex);
    device->memory().unmap(address);
  }
}

cuda::Result allocateHost(const char *call, void **pointer, size_t bytes,
                          unsigned flags) {
  return runCall(call, [&] {
    expectPointer(pointer, "pointer");
    expectSafe();
    if (!currentDevice())
      throw Refusal(cuda::InvalidContext, "expected a current context");
    if (flags &
        ~(cuda::hostPortable | cuda::hostDeviceMap | cuda::hostWriteCombined))
      throw Refusal(cuda::InvalidValue,
                    "expected flags below 8, got " + std::to_string(flags));
    if (bytes == 0)
      throw Refusal(cuda::InvalidValue, "expected bytes, got none");
    auto allocation =
        std::make_shared<Allocation>(Allocation::Kind::Host, bytes, true);
    uint8_t *host = allocation->host();
    {
      std::lock_guard<std::mutex> lock(hostMemory().mutex);
      hostMemory().allocations[reinterpret_cast<uint64_t>(host)] = allocation;
    }
    mapOnAll(host, bytes);
    *pointer = host;
    return cuda::Success;
  });
}

} // namespace

FSDP_EMULATOR_API cuMemHostAlloc(void **pointer, size_t bytes, unsigned flags) {
  return allocateHost(__func__, pointer, bytes, flags);
}
FSDP_EMULATOR_API cuMemAllocHost_v2(void **pointer, size_t bytes) {
  return allocateHost(__func__, pointer, bytes, 0);
}

/// Copies that are waiting may use it.
static void waitForAllDevices() {
  for (const auto &device : Platform::get().devices) {
    std::lock_guard<std::mutex> lock(device->mutex);
    if (!device->stickyError())
      device->synchronizeAll();
  }
}

FSDP_EMULATOR_API cuMemFreeHost(void *pointer) {
  return runCall(__func__, [&] {
    expectSafe();
    auto address = reinterpret_cast<uint64_t>(pointer);
    std::shared_ptr<Allocation> allocation;
    {
      std::lock_guard<std::mutex> lock(hostMemory().mutex);
      auto found = hostMemory().allocations.find(address);
      if (found == hostMemory().allocations.end())
        throw Refusal(cuda::InvalidValue,
                      "expected what cuMemHostAlloc gave, got " +
                          hexOf(address));
      allocation = found->second;
      hostMemory().allocations.erase(found);
    }
    waitForAllDevices();
    unmapOnAll(address);
    return cuda::Success;
  });
}

FSDP_EMULATOR_API cuMemHostGetDevicePointer_v2(cuda::DevicePointer *pointer,
                                               void *host, unsigned flags) {
  return runOnDevice(__func__, [&](Device &device) {
    expectPointer(pointer, "pointer");
    auto address = reinterpret_cast<uint64_t>(host);
    if (flags || !device.memory().find(address, 1))
      throw Refusal(cuda::InvalidValue,
                    "expected memory of cuMemHostAlloc, got " + hexOf(address));
    *pointer = address;
    return cuda::Success;
  });
}

FSDP_EMULATOR_API cuMemHostRegister_v2(void *pointer, size_t bytes,
                                       unsigned flags) {
  return runCall(__func__, [&] {
    expectPointer(pointer, "pointer");
    expectSafe();
    Device *device = currentDevice();
    if (!device)
      throw Refusal(cuda::InvalidContext, "expected a current context");
    if (flags & ~(cuda::hostPortable | cuda::hostDeviceMap))
      failUnmodeled("cuMemHostRegister", "flags " + std::to_string(flags));
    auto address = reinterpret_cast<uint64_t>(pointer);
    {
      std::lock_guard<std::mutex> lock(device->mutex);
      if (device->memory().find(address, 1) ||
          device->memory().find(address + bytes - 1, 1))
        throw Refusal(cuda::HostMemoryAlreadyRegistered,
                      "expected memory that is not registered, got " +
                          hexOf(address));
    }
    mapOnAll(static_cast<uint8_t *>(pointer), bytes);
    return cuda::Success;
  });
}

FSDP_EMULATOR_API cuMemHostUnregister(void *pointer) {
  return runCall(__func__, [&] {
    expectSafe();
    Device *device = currentDevice();
    if (!device)
      throw Refusal(cuda::InvalidContext, "expected a current context");
    auto address = reinterpret_cast<uint64_t>(pointer);
    {
      std::lock_guard<std::mutex> lock(device->mutex);
      if (!device->memory().findMapping(address))
        throw Refusal(cuda::HostMemoryNotRegistered,
                      "expected memory that is registered, got " +
                          hexOf(address));
    }
    waitForAllDevices();
    unmapOnAll(address);
    return cuda::Success;
  });
}

//===----------------------------------------------------------------------===//
// Virtual memory
//===----------------------------------------------------------------------===//

static constexpr size_t granularity = size_t{2} << 20;

static void expectGranular(const char *what, uint64_t bytes) {
  if (bytes == 0 || bytes % granularity)
    throw Refusal(cuda::InvalidValue, std::string("expected a multiple of ") +
                                          std::to_string(granularity) +
                                          " for " + what + ", got " +
                                          std::to_string(bytes));
}

static void checkProperties(const char *call, const Device &device,
                            const cuda::AllocationProperties &properties) {
  if (properties.type != cuda::allocationPinned)
    failUnmodeled(call, "type " + std::to_string(properties.type));
  const Sharing &sharing = device.settings.sharing;
  int known = (sharing.hasFiles ? cuda::handleFile : 0) |
              (sharing.hasFabric ? cuda::handleFabric : 0);
  if (properties.handleTypes & ~known)
    throw Refusal(cuda::NotSupported,
                  "expected handle types that the device reports, got " +
                      std::to_string(properties.handleTypes));
  if (properties.flags.directRdma && !sharing.hasRdma)
    throw Refusal(cuda::NotSupported,
                  "expected no memory for direct access by the network, which "
                  "the device does not report");
  if (properties.location.type != cuda::locationDevice)
    failUnmodeled(call,
                  "location type " + std::to_string(properties.location.type));
  if (properties.location.id != device.ordinal)
    failUnmodeled(call, "device " + std::to_string(properties.location.id) +
                            ", which is not the context's");
  if (properties.flags.compression || properties.flags.usage)
    failUnmodeled(call, "allocation flags");
}

FSDP_EMULATOR_API
cuMemGetAllocationGranularity(size_t *bytes,
                              const cuda::AllocationProperties *properties,
                              int option) {
  return runOnDevice(__func__, [&](Device &device) {
    expectPointer(bytes, "bytes");
    expectPointer(properties, "properties");
    checkProperties("cuMemGetAllocationGranularity", device, *properties);
    if (option != 0 && option != 1)
      throw Refusal(cuda::InvalidValue,
                    "expected option 0 or 1, got " + std::to_string(option));
    *bytes = granularity;
    return cuda::Success;
  });
}

FSDP_EMULATOR_API cuMemAddressReserve(cuda::DevicePointer *pointer,
                                      size_t bytes, size_t alignment,
                                      cuda::DevicePointer wanted,
                                      unsigned long long flags) {
  return runCall(__func__, [&] {
    expectPointer(pointer, "pointer");
    expectGranular("bytes", bytes);
    if (flags)
      failUnmodeled("cuMemAddressReserve", "flags " + std::to_string(flags));
    // A wish for an address may be denied.
    (void)wanted;
    alignment = std::max(alignment, granularity);
    if (alignment & (alignment - 1))
      throw Refusal(cuda::InvalidValue, "expected an alignment that is a power "
                                        "of two, got " +
                                            std::to_string(alignment));
    void *mapped = mmap(nullptr, bytes + alignment, PROT_NONE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapped == MAP_FAILED)
      throw std::bad_alloc();
    auto begin = reinterpret_cast<uint64_t>(mapped);
    uint64_t aligned = (begin + alignment - 1) & ~(alignment - 1);
    // What lies around it stays reserved, too, as a guard.
    Platform &platform = Platform::get();
    std::lock_guard<std::mutex> lock(platform.reservationsMutex);
    platform.reservations[aligned + deviceTag] = {
        reinterpret_cast<uint8_t *>(aligned), bytes};
    *pointer = aligned + deviceTag;
    return cuda::Success;
  });
}

/// Calls visit(address, mapping) for what is mapped in a range.
template <typename Visit>
static size_t visitMappings(Device &device, uint64_t address, uint64_t bytes,
                            Visit visit) {
  size_t visited = 0;
  for (uint64_t at = address; at < address + bytes;) {
    auto *mapping = device.memory().findMapping(at);
    if (!mapping) {
      at += granularity;
      continue;
    }
    uint64_t size = mapping->bytes;
    visited += size;
    visit(at, *mapping);
    at += size;
  }
  return visited;
}

FSDP_EMULATOR_API cuMemAddressFree(cuda::DevicePointer pointer, size_t bytes) {
  return runOnDevice(__func__, [&](Device &device) {
    Platform &platform = Platform::get();
    std::lock_guard<std::mutex> lock(platform.reservationsMutex);
    auto found = platform.reservations.find(pointer);
    if (found == platform.reservations.end() || found->second.bytes != bytes)
      throw Refusal(cuda::InvalidValue,
                    "expected a range of cuMemAddressReserve, got " +
                        std::to_string(bytes) + " bytes at " + hexOf(pointer));
    if (visitMappings(device, pointer, bytes, [](uint64_t, auto &) {}))
      throw Refusal(cuda::InvalidValue, "expected a range without memory");
    munmap(found->second.host, bytes);
    platform.reservations.erase(found);
    return cuda::Success;
  });
}

FSDP_EMULATOR_API cuMemCreate(cuda::AllocationHandle *handle, size_t bytes,
                              const cuda::AllocationProperties *properties,
                              unsigned long long flags) {
  return runOnDevice(__func__, [&](Device &device) {
    expectSafe();
    expectPointer(handle, "handle");
    expectPointer(properties, "properties");
    checkProperties("cuMemCreate", device, *properties);
    if (properties->handleTypes & cuda::handleFabric &&
        device.settings.sharing.isFabricDenied)
      throw Refusal(cuda::NotPermitted,
                    "expected a host in a domain of fabric handles");
    if (flags)
      failUnmodeled("cuMemCreate", "flags " + std::to_string(flags));
    expectGranular("bytes", bytes);
    // The room is free again when neither handle nor mapping is left.
    auto memory = allocate(device, Allocation::Kind::Physical, bytes);
    memory->setSharing(
        {properties->handleTypes, properties->flags.directRdma != 0});
    std::shared_ptr<Allocation> counted(
        memory.get(),
        [memory, &device, bytes](Allocation *) { device.giveBytes(bytes); });
    *handle = reinterpret_cast<uint64_t>(
        Platform::get().allocations.insert<void *>(counted));
    return cuda::Success;
  });
}

FSDP_EMULATOR_API cuMemRelease(cuda::AllocationHandle handle) {
  return runOnDevice(__func__, [&](Device &) {
    expectSafe();
    Platform::get().allocations.remove(reinterpret_cast<void *>(handle));
    return cuda::Success;
  });
}

FSDP_EMULATOR_API cuMemMap(cuda::DevicePointer pointer, size_t bytes,
                           size_t offset, cuda::AllocationHandle handle,
                           unsigned long long flags) {
  return runOnDevice(__func__, [&](Device &device) {
    expectSafe();
    if (flags)
      failUnmodeled("cuMemMap", "flags " + std::to_string(flags));
    if (offset)
      failUnmodeled("cuMemMap", "offset " + std::to_string(offset));
    expectGranular("bytes", bytes);
    auto allocation =
        Platform::get().allocations.find(reinterpret_cast<void *>(handle));
    if (bytes > allocation->bytes())
      throw Refusal(cuda::InvalidValue,
                    "expected at most " + std::to_string(allocation->bytes()) +
                        " bytes, got " + std::to_string(bytes));
    Platform &platform = Platform::get();
    std::lock_guard<std::mutex> lock(platform.reservationsMutex);
    auto next = platform.reservations.upper_bound(pointer);
    bool isReserved = next != platform.reservations.begin() &&
                      pointer - std::prev(next)->first + bytes <=
                          std::prev(next)->second.bytes &&
                      (pointer - std::prev(next)->first) % granularity == 0;
    if (!isReserved)
      throw Refusal(cuda::InvalidValue,
                    "expected reserved addresses, got " + hexOf(pointer));
    if (visitMappings(device, pointer, bytes, [](uint64_t, auto &) {}))
      throw Refusal(cuda::InvalidValue,
                    "expected addresses without memory, got " + hexOf(pointer));
    void *host = reinterpret_cast<void *>(pointer - deviceTag);
    if (mmap(host, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
             allocation->file(), 0) == MAP_FAILED)
      throw std::bad_alloc();
    DeviceMemory::Mapping mapping;
    mapping.bytes = bytes;
    mapping.host = static_cast<uint8_t *>(host);
    mapping.allocation = allocation;
    mapping.isAccessible = false;
    device.memory().mapAt(pointer, std::move(mapping));
    return cuda::Success;
  });
}

FSDP_EMULATOR_API cuMemSetAccess(cuda::DevicePointer pointer, size_t bytes,
                                 const cuda::AccessDescriptor *descriptors,
                                 size_t count) {
  return runOnDevice(__func__, [&](Device &device) {
    expectSafe();
    expectPointer(descriptors, "descriptors");
    for (size_t i = 0; i < count; ++i)
      if (descriptors[i].location.type != cuda::locationDevice ||
          (descriptors[i].location.id != device.ordinal &&
           !device.settings.arePeers) ||
          descriptors[i].location.id < 0 ||
          descriptors[i].location.id >= device.settings.devices ||
          descriptors[i].flags != cuda::accessReadWrite)
        failUnmodeled("cuMemSetAccess",
                      "access " + std::to_string(descriptors[i].flags) +
                          " of device " +
                          std::to_string(descriptors[i].location.id));
    size_t mapped = visitMappings(
        device, pointer, bytes, [&](uint64_t, DeviceMemory::Mapping &mapping) {
          for (size_t i = 0; i < count; ++i)
            if (descriptors[i].location.id == device.ordinal)
              mapping.isAccessible = true;
            else
              mapping.peers.insert(descriptors[i].location.id);
        });
    if (mapped != bytes)
      throw Refusal(cuda::InvalidValue, "expected " + std::to_string(bytes) +
                                            " bytes that are mapped, got " +
                                            std::to_string(mapped));
    return cuda::Success;
  });
}

FSDP_EMULATOR_API cuMemUnmap(cuda::DevicePointer pointer, size_t bytes) {
  return runOnDevice(__func__, [&](Device &device) {
    expectSafe();
    std::vector<std::pair<uint64_t, size_t>> mappings;
    size_t mapped = visitMappings(device, pointer, bytes,
                                  [&](uint64_t at, const auto &mapping) {
                                    mappings.push_back({at, mapping.bytes});
                                  });
    if (mapped != bytes)
      throw Refusal(cuda::InvalidValue,
                    "expected whole mappings of " + std::to_string(bytes) +
                        " bytes, got " + std::to_string(mapped));
    for (auto [at, size] : mappings) {
      device.memory().unmap(at);
      mmap(reinterpret_cast<void *>(at - deviceTag), size, PROT_NONE,
           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    }
    return cuda::Success;
  });
}
