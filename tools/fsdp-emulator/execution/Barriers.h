//===- Barriers.h - Where threads of a block wait for each other ----------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_EMULATOR_EXECUTION_BARRIERS_H
#define FSDP_EMULATOR_EXECUTION_BARRIERS_H

#include "execution/Kernel.h"

#include <array>
#include <string>
#include <vector>

namespace fsdp::emulator {

struct Block;

/// What a barrier instruction does, as its `mode`. Its sources are the barrier,
/// the number of threads and, of a reduction, a predicate; `flag` says that all
/// lanes of a warp have to execute it together.
enum class BarrierMode : uint8_t {
  Synchronize,
  Arrive,
  CountTrue,
  AllTrue,
  AnyTrue
};

/// The sixteen barriers of a block.
class Barriers {
public:
  void reset();
  /// The lanes of `mask` arrive, and wait if the instruction has them wait.
  /// Lets all go on if they were the last. Throws for barriers that would not
  /// work on a device.
  void arrive(Block &block, Warp &warp, const Instruction &instruction,
              LaneMask mask);
  /// Where threads wait though no warp can go on, for a message.
  [[noreturn]] void failForever(Block &block,
                                const std::vector<Warp> &warps) const;

private:
  struct Waiter {
    Warp *warp;
    const Instruction *instruction;
    LaneMask mask;
    bool waits;
  };
  struct Barrier {
    /// Threads that it is for; 0 as long as nobody has arrived.
    uint32_t expected = 0;
    uint32_t arrived = 0;
    std::vector<Waiter> waiters;
  };

  static void release(Block &block, Barrier &barrier);

  std::array<Barrier, 16> barriers;
};

} // namespace fsdp::emulator

#endif // FSDP_EMULATOR_EXECUTION_BARRIERS_H
