//===- GlobalAccesses.cpp - What a block accessed in global memory --------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "execution/GlobalAccesses.h"

#include <algorithm>
#include <bit>

namespace fsdp::emulator {

void GlobalAccesses::start(const Kernel &kernel, ThreadOrder &threads) {
  order = &threads;
  granuleBits = static_cast<unsigned>(std::countr_zero(kernel.globalGranule));
  if (slots.empty())
    slots.resize(1024);
}

void GlobalAccesses::startBlock() {
  if (++generation == 0) {
    std::fill(slots.begin(), slots.end(), Slot());
    generation = 1;
  }
  chunkCount = 0;
  lastChunk = noChunk;
}

bool GlobalAccesses::accessInOrder(const uint8_t *host, uint32_t bytesOfLane,
                                   const ThreadAccess &access) {
  uint32_t piecesOfLane = std::max(bytesOfLane >> granuleBits, 1u);
  uintptr_t piece = reinterpret_cast<uintptr_t>(host) >> granuleBits;
  ThreadAccess ofLane = access;
  for (uint32_t lane = 0; lane < warpSize; ++lane, ++ofLane.thread)
    for (uint32_t i = 0; i < piecesOfLane; ++i)
      if (order->access(at(piece++), ofLane))
        return false;
  return true;
}

GlobalAccesses::Slot &GlobalAccesses::slotOf(uintptr_t chunk) {
  uint64_t hash = chunk * 0x9e3779b97f4a7c15;
  size_t mask = slots.size() - 1;
  size_t index = hash >> (64 - std::countr_zero(slots.size()));
  while (slots[index].generation == generation && slots[index].chunk != chunk)
    index = (index + 1) & mask;
  return slots[index];
}

void GlobalAccesses::findChunk(uintptr_t chunk) {
  lastChunk = chunk;
  Slot *slot = &slotOf(chunk);
  if (slot->generation == generation) {
    lastFirstPiece = slot->firstPiece;
    return;
  }
  if (2 * size_t{chunkCount} >= slots.size()) {
    grow();
    slot = &slotOf(chunk);
  }
  uint32_t piecesOfChunk = uint32_t{1} << (chunkBits - granuleBits);
  lastFirstPiece = chunkCount++ * piecesOfChunk;
  *slot = {chunk, generation, lastFirstPiece};
  if (pieces.size() < size_t{lastFirstPiece} + piecesOfChunk)
    pieces.resize(2 * (size_t{lastFirstPiece} + piecesOfChunk));
  std::fill_n(pieces.begin() + lastFirstPiece, piecesOfChunk, ThreadAccesses());
}

void GlobalAccesses::grow() {
  std::vector<Slot> before(2 * slots.size());
  before.swap(slots);
  for (const Slot &slot : before)
    if (slot.generation == generation)
      slotOf(slot.chunk) = slot;
}

} // namespace fsdp::emulator
