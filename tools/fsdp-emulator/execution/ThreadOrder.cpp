//===- ThreadOrder.cpp - Which accesses of a block are in order -----------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "execution/ThreadOrder.h"

#include <algorithm>
#include <bit>

namespace fsdp::emulator {

static std::string describeThread(uint32_t thread) {
  return "thread " + std::to_string(thread) + ", lane " +
         std::to_string(thread % warpSize) + " of warp " +
         std::to_string(thread / warpSize);
}

std::string ThreadConflict::describe() const {
  switch (kind) {
  case Kind::None:
    return "nothing";
  case Kind::WriteOfThread:
    return "a write of " + describeThread(who);
  case Kind::ReadOfThread:
    return "a read of " + describeThread(who);
  case Kind::ReadOfWarp:
    return "a read of warp " + std::to_string(who);
  case Kind::ReadOfLanes:
    return "reads of other lanes of the warp";
  }
  return "";
}

void ThreadOrder::start(const Kernel &kernel, uint32_t warpCount) {
  warps = warpCount;
  keepsOneReader = kernel.hasPartialBarriers || kernel.hasThreadFences;
  clocks.assign(size_t{warps} * warps, 0);
  times.assign(warps, 1);
  fenced.assign(warps, 0);
  now = blockStart = 1;
  step = 0;
}

void ThreadOrder::startBlock() {
  blockStart = ++now;
  std::fill(clocks.begin(), clocks.end(), 0);
  std::fill(times.begin(), times.end(), now);
  std::fill(fenced.begin(), fenced.end(), 0);
}

ThreadConflict ThreadOrder::conflict(const ThreadAccesses &piece,
                                     const ThreadAccess &access) const {
  using Kind = ThreadConflict::Kind;
  using Agreement = ThreadAccess::Agreement;
  uint32_t warp = access.thread / warpSize;
  bool areBothStrong = access.isStrong && piece.isStrong;
  bool doAgree = access.agreement == Agreement::AllThreads ||
                 (access.agreement == Agreement::LanesOfOneStore &&
                  piece.writeStep == step && piece.writer / warpSize == warp);
  if (piece.writeTime >= blockStart && piece.writer != access.thread &&
      !areBothStrong && !doAgree &&
      !isBefore(piece.writer / warpSize, piece.writeTime, warp))
    return {Kind::WriteOfThread, piece.writer};
  if (access.access == Access::Read || piece.readTime < blockStart)
    return {};
  for (uint32_t left = piece.readerWarps; left; left &= left - 1) {
    auto reader = static_cast<uint32_t>(std::countr_zero(left));
    if (isBefore(reader, piece.readTime, warp))
      continue;
    if (reader != warp)
      return {Kind::ReadOfWarp, reader};
    if (piece.reader == severalThreads)
      return {Kind::ReadOfLanes, 0};
    if (piece.reader != access.thread && piece.reader / warpSize == warp)
      return {Kind::ReadOfThread, piece.reader};
  }
  return {};
}

/// Readers that are before this one need not be kept: what is after this one
/// is after them.
void ThreadOrder::recordRead(ThreadAccesses &piece, uint32_t thread) const {
  uint32_t warp = thread / warpSize;
  uint32_t bit = uint32_t{1} << warp;
  bool isSameTime =
      piece.readTime == times[warp] && (piece.readerWarps & bit) &&
      (piece.reader == severalThreads || piece.reader / warpSize == warp);
  if (isSameTime) {
    if (piece.reader != thread)
      piece.reader = severalThreads;
    return;
  }
  bool keeps =
      piece.readTime >= blockStart && piece.readerWarps && !keepsOneReader;
  if (keeps && piece.readerWarps != bit) {
    keeps = false;
    for (uint32_t left = piece.readerWarps & ~bit; left; left &= left - 1)
      keeps |= !isBefore(std::countr_zero(left), piece.readTime, warp);
  }
  piece.reader = static_cast<uint16_t>(thread);
  piece.readerWarps = keeps ? piece.readerWarps | bit : bit;
  piece.readTime = keeps ? std::max(piece.readTime, times[warp]) : times[warp];
}

ThreadConflict ThreadOrder::accessSlowly(ThreadAccesses &piece,
                                         const ThreadAccess &access) {
  if (auto other = conflict(piece, access))
    return other;
  // Strong writes may be beside a strong load. It is not kept, so that weak
  // writes beside it are missed.
  if (access.access != Access::Read)
    recordWrite(piece, access);
  else if (!access.isStrong)
    recordRead(piece, access.thread);
  return {};
}

void ThreadOrder::synchronizeWarp(uint32_t warp) {
  clocks[warp * warps + warp] = now;
  times[warp] = ++now;
}

void ThreadOrder::synchronize(const std::vector<uint32_t> &arrived,
                              const std::vector<uint32_t> &waiting) {
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

void ThreadOrder::fence(uint32_t warp) {
  uint32_t *clock = clocks.data() + size_t{warp} * warps;
  for (uint32_t i = 0; i < warps; ++i)
    if (i != warp)
      clock[i] = std::max(clock[i], fenced[i]);
  std::copy(clock, clock + warps, fenced.begin());
  // Its own lanes stay without an order.
  fenced[warp] = now;
  times[warp] = ++now;
}

} // namespace fsdp::emulator
