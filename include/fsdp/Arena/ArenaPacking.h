//===- ArenaPacking.h - Buffers in one range of memory ----------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Buffers that live at different times share bytes. When they live is asked of
// the order of events: a buffer may follow another one where what begins it
// knows that what ended the other is over, on whatever queue that was.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_ARENA_ARENAPACKING_H
#define FSDP_ARENA_ARENAPACKING_H

#include "fsdp/Arena/ArenaEvents.h"
#include "fsdp/Cost/CostModel.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/MathExtras.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

namespace mlir::fsdp {

/// Offsets and sizes are multiples of this many bytes.
constexpr int64_t kArenaAlignment = 256;

/// What a buffer of @bytes takes; an empty one has an address, too.
inline int64_t getPlaceBytes(int64_t bytes) {
  return llvm::alignTo(std::max<int64_t>(bytes, 1), kArenaAlignment);
}

/// Whether @a and @b need places of their own.
bool areNeededTogether(const EventOrder &events, const ArenaBuffer &a,
                       const ArenaBuffer &b);

/// Gives buffers that are needed together disjoint places, and returns the
/// bytes needed: largest first, each at the lowest offset that is free, or
/// better. Tries other orders, and searches for a placement as small as
/// getArenaBound where they leave room and the buffers are not too many. What
/// it does depends on its arguments only.
int64_t packBuffers(const EventOrder &events,
                    llvm::MutableArrayRef<ArenaBuffer> buffers);

} // namespace mlir::fsdp

#endif // FSDP_ARENA_ARENAPACKING_H
