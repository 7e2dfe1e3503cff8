//===- Reference.h - What collectives have to give --------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Written for the eye, one element at a time, and without the runtime's own
// code: tests compare bits.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_TEST_CONFORMANCE_REFERENCE_H
#define FSDP_TEST_CONFORMANCE_REFERENCE_H

#include "fsdp-rt/abi.h"

#include <cstdint>
#include <string>
#include <vector>

namespace fsdp::test {

using Bytes = std::vector<char>;

/// Types that have a sum over ranks.
const std::vector<fsdp_rt_dtype> &numberTypes();
int64_t sizeOf(fsdp_rt_dtype dtype);
std::string nameOf(fsdp_rt_dtype dtype);

/// A stream of numbers that depends on the seed alone.
class Random {
public:
  explicit Random(uint64_t seed) : state_(seed * 2 + 1) {}
  uint64_t next();
  /// In [0, bound).
  int64_t below(int64_t bound) {
    return static_cast<int64_t>(next() % static_cast<uint64_t>(bound));
  }

private:
  uint64_t state_;
};

/// `count` elements with magnitudes so different that every other order of
/// addition would round differently. Integers use all their bits.
Bytes randomElements(fsdp_rt_dtype dtype, int64_t count, uint64_t seed);

/// tree(0, n) over the sources' elements [begin, begin + count), divided.
Bytes expectedSum(const std::vector<Bytes> &sources, int64_t begin,
                  int64_t count, fsdp_rt_dtype dtype, int64_t divisor);

/// FNV-1a.
uint64_t hashOf(const Bytes &bytes);

/// The bfloat16 and float16 nearest to a float, ties to even.
uint16_t nearestBFloat16(float value);
uint16_t nearestFloat16(float value);
float fromBFloat16(uint16_t bits);
float fromFloat16(uint16_t bits);

} // namespace fsdp::test

#endif // FSDP_TEST_CONFORMANCE_REFERENCE_H
