//===- SharedMemory.h - The memory of a block, and races in it ------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// Each warp has a vector clock of the block's warps, which barriers join. A
// piece of memory knows who wrote and who read it last, and when; an access is
// a race where that is not before it by the clock of its warp. Lanes of a warp
// are as independent as warps are: only a synchronising instruction of the
// warp orders them.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_EMULATOR_EXECUTION_SHAREDMEMORY_H
#define FSDP_EMULATOR_EXECUTION_SHAREDMEMORY_H

#include "execution/Kernel.h"
#include "execution/OperationOrder.h"

#include <string>
#include <vector>

namespace fsdp::emulator {

/// Another access that is in no order with one.
struct SharedConflict {
  enum class Kind : uint8_t {
    None,
    WriteOfThread,
    ReadOfThread,
    ReadOfWarp,
    ReadOfLanes
  };
  Kind kind = Kind::None;
  uint32_t who = 0;

  explicit operator bool() const { return kind != Kind::None; }
  std::string describe() const;
};

class SharedMemory {
public:
  /// For a launch. Without `races`, none are looked for.
  void start(const Kernel &kernel, uint32_t bytes, uint32_t warps, bool races);
  /// Forgets what the block before wrote.
  void startBlock();

  uint32_t bytes() const { return size; }
  uint8_t *at(uint32_t offset) { return memory.data() + offset; }

  bool isWritten(uint32_t offset, uint32_t count) const;
  void setWritten(uint32_t offset, uint32_t count);

  /// Behind it, accesses are of another instruction.
  void nextInstruction() { ++step; }
  /// An access of a thread. `isSameValue`: what it writes is there already, so
  /// that lanes of one instruction may.
  SharedConflict access(uint32_t offset, uint32_t count, uint32_t thread,
                        Access access, bool isSameValue);

  /// All lanes of a warp wait for each other.
  void synchronizeWarp(uint32_t warp);
  /// `waiting` go on behind what all of `arrived` did.
  void synchronize(const std::vector<uint32_t> &arrived,
                   const std::vector<uint32_t> &waiting);

private:
  struct Piece {
    uint32_t writeTime = 0;
    uint32_t readTime = 0;
    /// Which instruction wrote it.
    uint32_t writeStep = 0;
    /// The warps that read it since they were last in order.
    uint32_t readerWarps = 0;
    uint16_t writer = 0;
    /// `severalThreads` if lanes of one warp did.
    uint16_t reader = 0;
    bool isAtomic = false;
  };
  static constexpr uint16_t severalThreads = 0xffff;

  /// What the warp did at `time` is before all that `warp` does now.
  bool isBefore(uint32_t other, uint32_t time, uint32_t warp) const {
    return clocks[warp * warps + other] >= time;
  }
  SharedConflict conflict(const Piece &piece, uint32_t thread, Access access,
                          bool isSameValue) const;
  void recordRead(Piece &piece, uint32_t thread);

  uint32_t size = 0;
  uint32_t granule = 4;
  uint32_t warps = 0;
  bool areRacesFound = true;
  bool keepsOneReader = false;
  std::vector<uint8_t> memory;
  /// One for each piece.
  std::vector<uint8_t> written;
  std::vector<Piece> pieces;
  /// What is before, for each warp, of each warp.
  std::vector<uint32_t> clocks;
  std::vector<uint32_t> times;
  /// Of the block's first accesses; what is earlier is of other blocks.
  uint32_t blockStart = 1;
  uint32_t now = 1;
  uint32_t step = 0;
};

} // namespace fsdp::emulator

#endif // FSDP_EMULATOR_EXECUTION_SHAREDMEMORY_H
