//===- Philox.h - Counter-based random numbers ------------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Rows of words by Philox4x32-10 (fsdp-rt/random.h). A block of four words is a
// function of a key and a counter alone, so that any element of any tensor can
// be drawn by any rank at any time.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_DATA_PHILOX_H
#define FSDP_RT_DATA_PHILOX_H

#include "core/StableHash.h"
#include "fsdp-rt/random.h"

#include <array>
#include <cstdint>
#include <string_view>

namespace fsdp::rt::data {

using PhiloxBlock = fsdp_rt::rng::Block;
using fsdp_rt::rng::philox;

/// An endless row of random words: the seed is the key; block i is drawn at
/// the counter {i (64 bits, low word first), stream (64 bits)}.
class RandomStream {
public:
  RandomStream(uint64_t seed, uint64_t stream)
      : key_{uint32_t(seed), uint32_t(seed >> 32)}, low_(uint32_t(stream)),
        high_(uint32_t(stream >> 32)) {}

  PhiloxBlock block(uint64_t index) const {
    return philox({uint32_t(index), uint32_t(index >> 32), low_, high_}, key_);
  }

private:
  std::array<uint32_t, 2> key_;
  uint32_t low_, high_;
};

} // namespace fsdp::rt::data

#endif // FSDP_RT_DATA_PHILOX_H
