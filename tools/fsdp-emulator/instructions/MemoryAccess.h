//===- MemoryAccess.h - Where a lane's address leads ----------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_EMULATOR_INSTRUCTIONS_MEMORYACCESS_H
#define FSDP_EMULATOR_INSTRUCTIONS_MEMORYACCESS_H

#include "execution/Warp.h"

namespace fsdp::emulator {

/// Addresses of the active lanes, with the instruction's offset.
struct LaneAddresses {
  uint64_t of[warpSize];

  LaneAddresses(const Warp &warp, const Instruction &instruction, Slot slot,
                uint64_t offset);
};

/// The bytes that `lane` accesses at `address` in the instruction's space, with
/// all checks. `value`: what a store writes. Throws DeviceFault.
uint8_t *resolve(Warp &warp, const Instruction &instruction, unsigned lane,
                 uint64_t address, uint32_t bytes, Access access,
                 const uint8_t *value = nullptr);

/// The checks of a store to shared memory that happens later.
void expectStoreToShared(Warp &warp, const Instruction &instruction,
                         unsigned lane, uint64_t address, uint32_t bytes);

/// The same as resolve() where all 32 lanes access one range of global memory,
/// each after the lane before; null where they do not.
uint8_t *resolveContiguous(Warp &warp, const Instruction &instruction,
                           LaneMask mask, const LaneAddresses &addresses,
                           uint32_t bytes, Access access);

/// For the statistics: a warp accesses global memory.
void countRequest(Warp &warp, LaneMask mask, const LaneAddresses &addresses,
                  uint32_t bytes, Access access);

} // namespace fsdp::emulator

#endif // FSDP_EMULATOR_INSTRUCTIONS_MEMORYACCESS_H
