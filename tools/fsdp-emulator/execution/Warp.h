//===- Warp.h - Warps and blocks while they run ---------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_EMULATOR_EXECUTION_WARP_H
#define FSDP_EMULATOR_EXECUTION_WARP_H

#include "execution/Barriers.h"
#include "execution/DeviceMemory.h"
#include "execution/GlobalAccesses.h"
#include "execution/Kernel.h"
#include "execution/SharedMemory.h"
#include "execution/ThreadOrder.h"

#include <array>

namespace fsdp::emulator {

/// What kernels did, for FSDP_EMULATOR_STATS.
struct Statistics {
  uint64_t launches = 0;
  /// Of these, by programmatic stream serialization.
  uint64_t dependentLaunches = 0;
  uint64_t warpInstructions = 0;
  uint64_t laneInstructions = 0;
  /// Global memory.
  uint64_t bytesLoaded = 0;
  uint64_t bytesStored = 0;
  /// Accesses of warps, and the pieces of 32 bytes that they touched.
  uint64_t requests = 0;
  uint64_t sectors = 0;
  uint64_t atomics = 0;
  uint64_t barriers = 0;
  double seconds = 0;

  void add(const Statistics &other);
};

struct Launch {
  const Kernel *kernel = nullptr;
  Dimensions grid = {1, 1, 1};
  Dimensions block = {1, 1, 1};
  uint32_t dynamicSharedBytes = 0;
  std::vector<uint8_t> parameters;
  OperationId operation = 0;
  /// By programmatic stream serialization: it may begin before the kernel
  /// before it has ended.
  bool isDependent = false;

  uint32_t threads() const { return block[0] * block[1] * block[2]; }
};

/// A copy that cp.async began. It happens when its warp waits for it, and so as
/// late as it may.
struct AsyncCopy {
  uint32_t destination;
  uint64_t source;
  uint32_t bytes;
  /// What is behind them is filled with zeros.
  uint32_t sourceBytes;
  uint32_t lane;
  uint32_t group;
};

/// What the warps of a block share.
struct Block {
  const Launch *launch = nullptr;
  const Kernel *kernel = nullptr;
  DeviceMemory *memory = nullptr;
  Statistics *statistics = nullptr;
  Checks checks;
  Dimensions index = {0, 0, 0};
  /// For races between blocks.
  Accessor accessor;
  /// Of a launch that may begin before the one before it has ended: whether any
  /// thread of its grid has waited for that.
  bool hasGridWaited = false;
  /// For races between its threads, if there may be any.
  bool hasThreadRaces = false;
  ThreadOrder order;
  GlobalAccesses *global = nullptr;
  SharedMemory shared;
  Barriers barriers;
};

struct Warp {
  Block *block = nullptr;
  /// Of registers and of constants.
  uint8_t *bases[2] = {nullptr, nullptr};
  uint32_t index = 0;
  /// The lanes that have threads, that have not exited, that wait at a barrier
  /// or for lanes of the warp.
  LaneMask threads = 0;
  LaneMask alive = 0;
  LaneMask waiting = 0;
  LaneMask synchronizing = 0;
  /// The lanes for which all of the grid before the launch is done: by
  /// griddepcontrol.wait, or since the launch began when that grid had ended.
  LaneMask gridWaited = 0;
  /// Lanes are at places of their own; otherwise all are at `pc`.
  bool isDiverged = false;
  int32_t pc = 0;
  std::array<int32_t, warpSize> lanePc = {};
  /// CC.CF.
  LaneMask carry = 0;
  /// localBytes for each lane, one after another.
  uint8_t *local = nullptr;
  std::vector<AsyncCopy> copies;
  std::array<uint32_t, warpSize> committedGroups = {};

  template <typename T>
  T *lanes(Slot slot) const {
    return reinterpret_cast<T *>(bases[slot.isConstant()] + slot.offset());
  }
  LaneMask predicate(Slot slot) const { return *lanes<LaneMask>(slot); }
  void setPredicate(Slot slot, LaneMask value, LaneMask mask) const {
    LaneMask &bits = *lanes<LaneMask>(slot);
    bits = (bits & ~mask) | (value & mask);
  }
  uint32_t threadOf(unsigned lane) const { return index * warpSize + lane; }
};

/// Names the kernel, the block, the thread and the line, and throws.
[[noreturn]] void fail(const Warp &warp, const Instruction &instruction,
                       unsigned lane, FaultCode code,
                       const std::string &message);

/// "(1,0,0)".
std::string describe(const Dimensions &dimensions);
/// The coordinates of a thread of a block.
Dimensions threadIndex(const Launch &launch, uint32_t thread);

/// Runs all blocks of a launch, one after another. Throws DeviceFault.
void execute(const Launch &launch, DeviceMemory &memory, const Checks &checks,
             uint32_t seed, Statistics &statistics);

} // namespace fsdp::emulator

#endif // FSDP_EMULATOR_EXECUTION_WARP_H
