//===- SharedMemory.cpp - The memory of a block, and races in it ----------===//
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
                         uint32_t warpCount, bool races) {
  size = bytes;
  granule = std::max<uint32_t>(kernel.sharedGranule, 1);
  warps = warpCount;
  areRacesFound = races;
  keepsOneReader = kernel.hasPartialBarriers;
  memory.resize(bytes);
  written.assign((bytes + granule - 1) / granule, 0);
  pieces.assign(races ? written.size() : 0, Piece());
  clocks.assign(size_t{warps} * warps, 0);
  times.assign(warps, 1);
  now = blockStart = 1;
  step = 0;
}

void SharedMemory::startBlock() {
  if (size == 0)
    return;
  std::memset(memory.data(), 0xff, size);
  std::fill(written.begin(), written.end(), 0);
  blockStart = ++now;
  std::fill(clocks.begin(), clocks.end(), 0);
  std::fill(times.begin(), times.end(), now);
}

bool SharedMemory::isWritten(uint32_t offset, uint32_t count) const {
  for (uint32_t i = offset / granule; i * granule < offset + count; ++i)
    if (!written[i])
      return false;
  return true;
}

void SharedMemory::setWritten(uint32_t offset, uint32_t count) {
  for (uint32_t i = offset / granule; i * granule < offset + count; ++i)
    written[i] = 1;
}

std::string SharedConflict::describe() const {
  switch (kind) {
  case Kind::None:
    return "nothing";
  case Kind::WriteOfThread:
    return "a write of thread " + std::to_string(who);
  case Kind::ReadOfThread:
    return "a read of thread " + std::to_string(who);
  case Kind::ReadOfWarp:
    return "a read of warp " + std::to_string(who);
  case Kind::ReadOfLanes:
    return "reads of other lanes";
  }
  return "";
}

SharedConflict SharedMemory::conflict(const Piece &piece, uint32_t thread,
                                      Access access, bool isSameValue) const {
  using Kind = SharedConflict::Kind;
  uint32_t warp = thread / warpSize;
  bool areBothAtomic = access == Access::Atomic && piece.isAtomic;
  bool isOneStore = access == Access::Write && isSameValue &&
                    piece.writeStep == step && piece.writer / warpSize == warp;
  if (piece.writeTime >= blockStart && piece.writer != thread &&
      !areBothAtomic && !isOneStore &&
      !isBefore(piece.writer / warpSize, piece.writeTime, warp))
    return {Kind::WriteOfThread, piece.writer};
  if (access == Access::Read || piece.readTime < blockStart)
    return {};
  for (uint32_t left = piece.readerWarps; left; left &= left - 1) {
    auto reader = static_cast<uint32_t>(std::countr_zero(left));
    if (isBefore(reader, piece.readTime, warp))
      continue;
    if (reader != warp)
      return {Kind::ReadOfWarp, reader};
    if (piece.reader == severalThreads)
      return {Kind::ReadOfLanes, 0};
    if (piece.reader != thread && piece.reader / warpSize == warp)
      return {Kind::ReadOfThread, piece.reader};
  }
  return {};
}

/// Readers that are before this one need not be kept: what is behind this one
/// is behind them.
void SharedMemory::recordRead(Piece &piece, uint32_t thread) {
  uint32_t warp = thread / warpSize;
  uint32_t bit = uint32_t{1} << warp;
  bool keeps =
      piece.readTime >= blockStart && piece.readerWarps && !keepsOneReader;
  if (keeps && piece.readerWarps != bit) {
    keeps = false;
    for (uint32_t left = piece.readerWarps & ~bit; left; left &= left - 1)
      keeps |= !isBefore(std::countr_zero(left), piece.readTime, warp);
  }
  bool isSameTime =
      piece.readTime == times[warp] && (piece.readerWarps & bit) &&
      piece.reader != thread &&
      (piece.reader == severalThreads || piece.reader / warpSize == warp);
  piece.reader = isSameTime ? severalThreads : static_cast<uint16_t>(thread);
  piece.readerWarps = keeps ? piece.readerWarps | bit : bit;
  piece.readTime = keeps ? std::max(piece.readTime, times[warp]) : times[warp];
}

SharedConflict SharedMemory::access(uint32_t offset, uint32_t count,
                                    uint32_t thread, Access access,
                                    bool isSameValue) {
  if (!areRacesFound)
    return {};
  for (uint32_t i = offset / granule; i * granule < offset + count; ++i) {
    Piece &piece = pieces[i];
    if (auto other = conflict(piece, thread, access, isSameValue))
      return other;
    if (access == Access::Read) {
      recordRead(piece, thread);
      continue;
    }
    piece.writer = static_cast<uint16_t>(thread);
    piece.writeTime = times[thread / warpSize];
    piece.writeStep = step;
    piece.isAtomic = access == Access::Atomic;
    piece.readerWarps = 0;
    piece.readTime = 0;
  }
  return {};
}

void SharedMemory::synchronizeWarp(uint32_t warp) {
  if (size == 0)
    return;
  clocks[warp * warps + warp] = now;
  times[warp] = ++now;
}

void SharedMemory::synchronize(const std::vector<uint32_t> &arrived,
                               const std::vector<uint32_t> &waiting) {
  if (size == 0)
    return;
  std::vector<uint32_t> joined(warps, 0);
  for (uint32_t warp : arrived) {
    const uint32_t *clock = clocks.data() + size_t{warp} * warps;
    for (uint32_t i = 0; i < warps; ++i)
      joined[i] = std::max(joined[i], clock[i]);
    // What it does next has a later time.
    joined[warp] = now;
  }
  ++now;
  for (uint32_t warp : waiting) {
    std::copy(joined.begin(), joined.end(),
              clocks.begin() + size_t{warp} * warps);
    times[warp] = now;
  }
}

} // namespace fsdp::emulator
