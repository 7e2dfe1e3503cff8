//===- SharedMemory.cpp - The memory of a block ---------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "execution/SharedMemory.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace fsdp::emulator {

void SharedMemory::start(const Kernel &kernel, uint32_t bytes,
                         ThreadOrder *threads) {
  size = bytes;
  granuleBits = static_cast<unsigned>(std::countr_zero(kernel.sharedGranule));
  order = threads;
  memory.resize(bytes);
  written.assign(bytes ? endPiece(0, bytes) : 0, 0);
  pieces.assign(order ? written.size() : 0, ThreadAccesses());
}

void SharedMemory::startBlock() {
  if (size == 0)
    return;
  std::memset(memory.data(), 0xff, size);
  std::fill(written.begin(), written.end(), 0);
}

bool SharedMemory::isWritten(uint32_t offset, uint32_t count) const {
  for (uint32_t i = firstPiece(offset), e = endPiece(offset, count); i < e; ++i)
    if (!written[i])
      return false;
  return true;
}

void SharedMemory::setWritten(uint32_t offset, uint32_t count) {
  for (uint32_t i = firstPiece(offset), e = endPiece(offset, count); i < e; ++i)
    written[i] = 1;
}

ThreadConflict SharedMemory::access(uint32_t offset, uint32_t count,
                                    const ThreadAccess &access) {
  if (!order)
    return {};
  for (uint32_t i = firstPiece(offset), e = endPiece(offset, count); i < e; ++i)
    if (auto other = order->access(pieces[i], access))
      return other;
  return {};
}

} // namespace fsdp::emulator
