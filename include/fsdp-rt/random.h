//===- random.h - Random numbers of a step ----------------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Philox4x32-10 of Salmon et al., "Parallel random numbers: as easy as 1, 2, 3"
// (SC'11), and the counter of a step's random numbers: what fsdp.random draws
// is a function of it. C++17, included by compiler, runtime and tests.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_RANDOM_H
#define FSDP_RT_RANDOM_H

#include <array>
#include <cstdint>

namespace fsdp_rt::rng {

using Block = std::array<uint32_t, 4>;
using Key = std::array<uint32_t, 2>;

constexpr int rounds = 10;
/// What the first and third word of the counter are multiplied by, and what is
/// added to the key after each round.
constexpr uint32_t multiplier0 = 0xD2511F53, multiplier2 = 0xCD9E8D57,
                   keyStep0 = 0x9E3779B9, keyStep1 = 0xBB67AE85;

constexpr Block philox(Block counter, Key key) {
  for (int round = 0; round < rounds; ++round) {
    uint64_t a = uint64_t(multiplier0) * counter[0];
    uint64_t b = uint64_t(multiplier2) * counter[2];
    counter = {uint32_t(b >> 32) ^ counter[1] ^ key[0], uint32_t(b),
               uint32_t(a >> 32) ^ counter[3] ^ key[1], uint32_t(a)};
    key[0] += keyStep0;
    key[1] += keyStep1;
  }
  return counter;
}

// Bits of the counter. No two elements that a training run draws have the same
// counter, within these bounds:
//
//   word 0   the element's number / 4, lower 32 bits
//   word 1   its upper 8 bits | the rank's number << 8; 0 where all ranks share
//   word 2   the site | the micro-batch << 16
//   word 3   the step
//
// The element is the word with number (element % 4) of the block. The key is
// the seed.
constexpr int wordsOfBlock = 4, rankShift = 8, microBatchShift = 16;
constexpr int64_t mostElements = int64_t(1) << 42;
constexpr int64_t mostRanks = int64_t(1) << 24;
constexpr int64_t mostSites = int64_t(1) << 16;
constexpr int64_t mostMicroBatches = int64_t(1) << 16;
constexpr int64_t mostSteps = int64_t(1) << 32;

/// Where a step's random numbers are drawn.
struct Place {
  uint64_t seed = 0;
  uint32_t site = 0, rank = 0, microBatch = 0, step = 0;
};

constexpr uint32_t drawWord(const Place &place, uint64_t element) {
  uint64_t block = element / wordsOfBlock;
  Block drawn =
      philox({uint32_t(block), uint32_t(block >> 32) | place.rank << rankShift,
              place.site | place.microBatch << microBatchShift, place.step},
             {uint32_t(place.seed), uint32_t(place.seed >> 32)});
  return drawn[element % wordsOfBlock];
}

/// In [0, 1), a multiple of 2^-24.
constexpr float toUniform(uint32_t word) {
  return float(word >> 8) * (1.0f / (1 << 24));
}

} // namespace fsdp_rt::rng

#endif // FSDP_RT_RANDOM_H
