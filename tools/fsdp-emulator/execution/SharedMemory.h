//===- SharedMemory.h - The memory of a block -----------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_EMULATOR_EXECUTION_SHAREDMEMORY_H
#define FSDP_EMULATOR_EXECUTION_SHAREDMEMORY_H

#include "execution/Kernel.h"
#include "execution/ThreadOrder.h"

#include <vector>

namespace fsdp::emulator {

class SharedMemory {
public:
  /// For a launch. `order`, which may be null, says which races there are.
  void start(const Kernel &kernel, uint32_t bytes, ThreadOrder *order);
  /// Forgets what the block before wrote.
  void startBlock();

  uint32_t bytes() const { return size; }
  uint8_t *at(uint32_t offset) { return memory.data() + offset; }

  bool isWritten(uint32_t offset, uint32_t count) const;
  void setWritten(uint32_t offset, uint32_t count);

  /// Returns what is in no order with the access.
  ThreadConflict access(uint32_t offset, uint32_t count,
                        const ThreadAccess &access);

private:
  /// Of bytes [offset, offset + count).
  uint32_t firstPiece(uint32_t offset) const { return offset >> granuleBits; }
  uint32_t endPiece(uint32_t offset, uint32_t count) const {
    return ((offset + count - 1) >> granuleBits) + 1;
  }

  uint32_t size = 0;
  /// Pieces are of so many bytes, as a power of two.
  unsigned granuleBits = 2;
  ThreadOrder *order = nullptr;
  std::vector<uint8_t> memory;
  /// One for each piece.
  std::vector<uint8_t> written;
  std::vector<ThreadAccesses> pieces;
};

} // namespace fsdp::emulator

#endif // FSDP_EMULATOR_EXECUTION_SHAREDMEMORY_H
