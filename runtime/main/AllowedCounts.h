//===- AllowedCounts.h - Labels that do not count, compared -----*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_MAIN_ALLOWEDCOUNTS_H
#define FSDP_RT_MAIN_ALLOWEDCOUNTS_H

#include <cstdint>

namespace fsdp::rt {

/// Whether the batches of a step have different numbers of elements that are
/// one of the values beside an input's bounds, such as labels of -100. Ranks
/// compare theirs with the flags that they exchange after a step anyway.
class AllowedCounts {
public:
  /// Bits of Consensus::any that are used, from firstBit on.
  static constexpr int firstBit = 6, countBits = 5, bits = 2 * countBits + 1;

  /// Of this rank's next micro-batch of the step.
  void add(int64_t count) {
    differs_ |= batches_ != 0 && count != last_;
    last_ = count;
    ++batches_;
  }

  /// This rank's flags, after which a step may begin: the last micro-batch's
  /// number modulo 2^countBits, its complement, and whether micro-batches
  /// differ.
  uint32_t takeFlags() {
    const uint32_t low = uint32_t(last_) & mask;
    uint32_t flags =
        low | (~low & mask) << countBits | uint32_t(differs_) << 2 * countBits;
    *this = AllowedCounts();
    return flags << firstBit;
  }

  /// `any`: what Consensus::any made of all ranks' flags. A bit that is 1 on
  /// one rank and 0 on another is set in both halves. Numbers that are equal
  /// modulo 2^countBits are not told apart.
  static bool differs(uint32_t any) {
    any >>= firstBit;
    return (any & any >> countBits & mask) || (any >> 2 * countBits & 1);
  }

private:
  static constexpr uint32_t mask = (1u << countBits) - 1;
  int64_t last_ = 0, batches_ = 0;
  bool differs_ = false;
};

} // namespace fsdp::rt

#endif // FSDP_RT_MAIN_ALLOWEDCOUNTS_H
