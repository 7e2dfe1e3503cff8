//===- ArenaBound.h - The least that buffers need ---------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_ARENA_ARENABOUND_H
#define FSDP_ARENA_ARENABOUND_H

#include "fsdp/Arena/ArenaEvents.h"

#include "llvm/ADT/ArrayRef.h"

#include <cstdint>
#include <vector>

namespace mlir::fsdp {

/// The heaviest buffers of which each two are needed together: no arena is
/// smaller than their bytes.
std::vector<unsigned> getHeaviestTogether(const EventOrder &events,
                                          llvm::ArrayRef<ArenaBuffer> buffers);
int64_t getArenaBound(const EventOrder &events,
                      llvm::ArrayRef<ArenaBuffer> buffers);

} // namespace mlir::fsdp

#endif // FSDP_ARENA_ARENABOUND_H
