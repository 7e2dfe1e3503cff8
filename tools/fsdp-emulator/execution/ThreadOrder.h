//===- ThreadOrder.h - Which accesses of a block are in order -------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// Each warp has a vector clock of the block's warps, which barriers join. A
// piece of memory knows who wrote and who read it last, and when; an access is
// a race where that is not before it by the clock of its warp. Lanes of a warp
// are as independent as warps are: only a barrier of the warp or of the block
// orders them. As PTX has it, shuffles, votes and matrix instructions let lanes
// wait for each other, and order no memory.
//
// Fences order what is before one with what is after one that runs later. A
// device promises that only where a flag is read between them, so that races
// beside fences may be missed.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_EMULATOR_EXECUTION_THREADORDER_H
#define FSDP_EMULATOR_EXECUTION_THREADORDER_H

#include "execution/Kernel.h"
#include "execution/OperationOrder.h"

#include <string>
#include <vector>

namespace fsdp::emulator {

/// Another access that is in no order with one.
struct ThreadConflict {
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

/// An access of a thread, as far as an order matters to it.
struct ThreadAccess {
  /// Which writes without an order agree, as this one writes what is there.
  enum class Agreement : uint8_t { None, LanesOfOneStore, AllThreads };

  uint32_t thread = 0;
  Access access = Access::Read;
  /// Atomic, volatile, relaxed, ..: these are no races with each other.
  bool isStrong = false;
  Agreement agreement = Agreement::None;
};

/// Who of a block accessed a piece of memory last.
struct ThreadAccesses {
  uint32_t writeTime = 0;
  uint32_t readTime = 0;
  /// Which instruction wrote it.
  uint32_t writeStep = 0;
  /// The warps that read it since they were last in order.
  uint32_t readerWarps = 0;
  uint16_t writer = 0;
  /// ThreadOrder::severalThreads if lanes of one warp did.
  uint16_t reader = 0;
  bool isStrong = false;
};

class ThreadOrder {
public:
  /// For a launch.
  void start(const Kernel &kernel, uint32_t warps);
  /// What the block before did is of no matter.
  void startBlock();

  /// Behind it, accesses are of another instruction.
  void nextInstruction() { ++step; }
  /// Returns what is in no order with the access, or records it.
  ThreadConflict access(ThreadAccesses &piece, const ThreadAccess &access) {
    if (accessQuickly(piece, access))
      return {};
    return accessSlowly(piece, access);
  }

  /// All lanes of a warp wait for each other.
  void synchronizeWarp(uint32_t warp);
  /// `waiting` go on after what all of `arrived` did.
  void synchronize(const std::vector<uint32_t> &arrived,
                   const std::vector<uint32_t> &waiting);
  /// A fence of lanes of a warp.
  void fence(uint32_t warp);

private:
  static constexpr uint16_t severalThreads = 0xffff;

  /// What most accesses are: of a piece that no other thread of the block has
  /// accessed since it began, or loads of one that several lanes of the warp
  /// have loaded already. At most one of these has written it, so that the
  /// write is before what the warp does now.
  bool accessQuickly(ThreadAccesses &piece, const ThreadAccess &access) const {
    uint32_t thread = access.thread;
    uint32_t warp = thread / warpSize, bit = uint32_t{1} << warp;
    bool isRead = access.access == Access::Read;
    if (isRead && piece.reader == severalThreads &&
        piece.readTime == times[warp] && (piece.readerWarps & bit))
      return true;
    bool isOtherWriter =
        piece.writeTime >= blockStart && piece.writer != thread;
    bool areOtherReaders = piece.readTime >= blockStart &&
                           (piece.reader != thread || piece.readerWarps != bit);
    if (access.isStrong || isOtherWriter || areOtherReaders)
      return false;
    if (isRead) {
      piece.reader = static_cast<uint16_t>(thread);
      piece.readerWarps = bit;
      piece.readTime = times[warp];
      return true;
    }
    recordWrite(piece, access);
    return true;
  }
  ThreadConflict accessSlowly(ThreadAccesses &piece,
                              const ThreadAccess &access);
  ThreadConflict conflict(const ThreadAccesses &piece,
                          const ThreadAccess &access) const;
  void recordRead(ThreadAccesses &piece, uint32_t thread) const;
  void recordWrite(ThreadAccesses &piece, const ThreadAccess &access) const {
    piece = {times[access.thread / warpSize],      0, step,           0,
             static_cast<uint16_t>(access.thread), 0, access.isStrong};
  }
  /// What the warp did at `time` is before all that `warp` does now.
  bool isBefore(uint32_t other, uint32_t time, uint32_t warp) const {
    return clocks[warp * warps + other] >= time;
  }

  uint32_t warps = 0;
  bool keepsOneReader = false;
  /// What is before, for each warp, of each warp.
  std::vector<uint32_t> clocks;
  std::vector<uint32_t> times;
  /// What is before the fence that ran last.
  std::vector<uint32_t> fenced;
  /// Of the block's first accesses; what is earlier is of other blocks.
  uint32_t blockStart = 1;
  uint32_t now = 1;
  uint32_t step = 0;
};

} // namespace fsdp::emulator

#endif // FSDP_EMULATOR_EXECUTION_THREADORDER_H
