//===- Philox.h - Counter-based random numbers -------------------*- C++
//-*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Philox4x32-10 of Salmon et al., "Parallel random numbers: as easy as 1, 2, 3"
// (SC'11). A block of four words is a function of a key and a counter alone, so
// that any element of any tensor can be drawn by any rank at any time.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_DATA_PHILOX_H
#define FSDP_RT_DATA_PHILOX_H

#include "core/StableHash.h"

#include <array>
#include <cstdint>
#include <string_view>

namespace fsdp::rt::data {

using PhiloxBlock = std::array<uint32_t, 4>;

/// Ten rounds over `counter` with the 64-bit key {key[0], key[1]}.
inline PhiloxBlock philox(PhiloxBlock counter, std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    uint64_t a = uint64_t(0xD2511F53) * counter[0];
    uint64_t b = uint64_t(0xCD9E8D57) * counter[2];
    counter = {uint32_t(b >> 32) ^ counter[1] ^ key[0], uint32_t(b),
               uint32_t(a >> 32) ^ counter[3] ^ key[1], uint32_t(a)};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return counter;
}

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
