//===- Extension.cpp - For doubles of libraries that work on streams ------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "driver/Extension.h"

#include "driver/Platform.h"

#include <utility>

using namespace fsdp::emulator;

/// The device whose work the thread runs, which may be another than its own:
/// some calls wait for all devices.
static thread_local Device *running = nullptr;
static Device *findDevice() { return running ? running : currentDevice(); }

#define FSDP_EMULATOR_EXTENSION                                                \
  extern "C" __attribute__((visibility("default")))

FSDP_EMULATOR_EXTENSION int
fsdpEmulatorIssue(void *stream, const char *name, int (*run)(void *data),
                  void *data, void (*destroy)(void *data),
                  const FsdpEmulatorRange *ranges, size_t count,
                  unsigned long long turn) {
  return runOnDevice(__func__, [&](Device &device) {
    std::shared_ptr<void> owned(data, [destroy](void *object) {
      if (destroy)
        destroy(object);
    });
    std::vector<FsdpEmulatorRange> all(ranges, ranges + count);
    for (const FsdpEmulatorRange &range : all)
      device.memory().forEachPiece(range.pointer, range.bytes, name,
                                   [](Place, size_t) {});
    auto access = [&device, all, turn,
                   name = std::string(name)](OperationId id) {
      device.checkTurn(turn, id);
      for (const FsdpEmulatorRange &range : all)
        device.memory().forEachPiece(
            range.pointer, range.bytes, name, [&](Place place, size_t piece) {
              device.memory().recordAccess(
                  place, piece, range.isWritten ? Access::Write : Access::Read,
                  {id});
              if (range.isWritten)
                place.allocation->setWritten(place.offset, piece);
            });
    };
    Work work;
    work.name = name;
    work.run = [&device, run, owned, access, name = work.name](OperationId id) {
      Device *outer = std::exchange(running, &device);
      int answer = run(owned.get());
      running = outer;
      if (answer < 0)
        throw DeviceFault(FaultCode::LaunchFailed,
                          name + ": expected it to succeed, got a failure");
      if (answer == 0)
        return false;
      access(id);
      return true;
    };
    issueOrCapture(device,
                   *findStream(device, static_cast<cuda::Stream>(stream)),
                   std::move(work));
    return cuda::Success;
  });
}

FSDP_EMULATOR_EXTENSION void *
fsdpEmulatorHostPointer(unsigned long long pointer, size_t bytes) {
  Device *device = findDevice();
  return device ? device->memory().find(pointer, bytes).host : nullptr;
}

FSDP_EMULATOR_EXTENSION int fsdpEmulatorLoadCode(const char *name) {
  return runOnDevice(__func__, [&](Device &device) {
    if (!device.isLoadedByLibraries(name)) {
      expectSafe(/*isOfLibrary=*/true);
      device.setLoadedByLibraries(name);
    }
    return cuda::Success;
  });
}

FSDP_EMULATOR_EXTENSION int fsdpEmulatorSharing(unsigned long long pointer) {
  Device *device = findDevice();
  const DeviceMemory::Mapping *mapping =
      device ? device->memory().mappingAt(pointer) : nullptr;
  if (!mapping)
    return -1;
  const Sharing &all = device->settings.sharing;
  const Allocation::Sharing &has = mapping->allocation->howShared();
  bool isMissing = (all.hasFiles && !(has.handleTypes & cuda::handleFile)) ||
                   (all.hasFabric && !all.isFabricDenied &&
                    !(has.handleTypes & cuda::handleFabric)) ||
                   (all.hasRdma && !has.hasRdma);
  return isMissing ? has.handleTypes | has.hasRdma << 16 : -1;
}

FSDP_EMULATOR_EXTENSION int fsdpEmulatorIsAccessible(unsigned long long pointer,
                                                     int ordinal) {
  Device *device = findDevice();
  const DeviceMemory::Mapping *mapping =
      device ? device->memory().mappingAt(pointer) : nullptr;
  if (!mapping || !device->settings.arePeers)
    return 1;
  const std::vector<int> &cards = device->settings.cards;
  if (cards[device->ordinal] == ordinal)
    return mapping->isAccessible;
  for (int peer : mapping->peers)
    if (cards[peer] == ordinal)
      return 1;
  return 0;
}

FSDP_EMULATOR_EXTENSION int fsdpEmulatorDevice(void) {
  const Device *device = findDevice();
  return device ? device->settings.cards[device->ordinal] : -1;
}
