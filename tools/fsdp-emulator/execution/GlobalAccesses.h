//===- GlobalAccesses.h - What a block accessed in global memory ----------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// A hash table from 128 bytes, as a warp accesses them together, to the
// accesses of their pieces. It forgets all of them when a block begins, so that
// it is as large as what one block touches.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_EMULATOR_EXECUTION_GLOBALACCESSES_H
#define FSDP_EMULATOR_EXECUTION_GLOBALACCESSES_H

#include "execution/ThreadOrder.h"

#include <vector>

namespace fsdp::emulator {

class GlobalAccesses {
public:
  /// For a launch.
  void start(const Kernel &kernel, ThreadOrder &order);
  void startBlock();

  /// Returns what is in no order with an access of bytes of the host.
  ThreadConflict access(const uint8_t *host, uint32_t bytes,
                        const ThreadAccess &access) {
    auto address = reinterpret_cast<uintptr_t>(host);
    for (uintptr_t piece = address >> granuleBits;
         piece << granuleBits < address + bytes; ++piece)
      if (auto other = order->access(at(piece), access))
        return other;
    return {};
  }

  /// The same of all lanes of a warp, from thread `access.thread` on, whose
  /// bytes are after each other's. Returns whether they have an order.
  bool accessInOrder(const uint8_t *host, uint32_t bytesOfLane,
                     const ThreadAccess &access);

private:
  static constexpr unsigned chunkBits = 7;
  static constexpr uintptr_t noChunk = ~uintptr_t{0};
  struct Slot {
    uintptr_t chunk = 0;
    /// It is taken where this is that of the block.
    uint32_t generation = 0;
    uint32_t firstPiece = 0;
  };

  ThreadAccesses &at(uintptr_t piece) {
    unsigned bits = chunkBits - granuleBits;
    if (piece >> bits != lastChunk)
      findChunk(piece >> bits);
    return pieces[lastFirstPiece + (piece & ((uintptr_t{1} << bits) - 1))];
  }
  /// Makes it the last one.
  void findChunk(uintptr_t chunk);
  Slot &slotOf(uintptr_t chunk);
  void grow();

  ThreadOrder *order = nullptr;
  /// Pieces are of so many bytes, as a power of two.
  unsigned granuleBits = 2;
  std::vector<Slot> slots;
  uint32_t generation = 0;
  uint32_t chunkCount = 0;
  std::vector<ThreadAccesses> pieces;
  uintptr_t lastChunk = noChunk;
  uint32_t lastFirstPiece = 0;
};

} // namespace fsdp::emulator

#endif // FSDP_EMULATOR_EXECUTION_GLOBALACCESSES_H
