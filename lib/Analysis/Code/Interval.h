//===- Interval.h - Values that an integer takes ----------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_LIB_ANALYSIS_CODE_INTERVAL_H
#define FSDP_LIB_ANALYSIS_CODE_INTERVAL_H

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>

namespace mlir::fsdp {

/// Values of an integer, low, low + stride, .. high, all taken as equally
/// frequent.
struct Interval {
  double low = 0, high = 0, stride = 1;
  double getMean() const { return (low + high) / 2; }
  bool isConstant() const { return low == high; }
  double getCount() const { return (high - low) / stride + 1; }
};

/// Of sums: all numbers of both lie apart by multiples of it.
inline double getCommonStride(const Interval &a, const Interval &b) {
  return double(std::gcd(int64_t(a.stride), int64_t(b.stride)));
}

/// The lower or higher of two numbers, from @low to @high.
inline Interval getClamped(const Interval &a, const Interval &b, double low,
                           double high) {
  double stride = a.isConstant()   ? b.stride
                  : b.isConstant() ? a.stride
                                   : getCommonStride(a, b);
  // A bound may lie between two numbers of the other.
  if (std::fmod(high - low, stride) != 0)
    stride = 1;
  return {low, high, stride};
}

/// Of which a grid has more numbers than are tried one by one.
constexpr double kMostNumbers = 4096;

/// Iterations in the mean over the numbers at which loops begin and end. Where
/// both differ, or there are many: (end - first) / step is rounded up by
/// (step - 1) / 2 in the mean.
inline double getTrips(const Interval &low, const Interval &high, double step) {
  auto between = [&](double first, double end) {
    return std::max(0.0, std::ceil((end - first) / step));
  };
  const Interval &moving = low.isConstant() ? high : low;
  double count = moving.getCount();
  if ((!low.isConstant() && !high.isConstant()) || count > kMostNumbers)
    return std::max(0.0,
                    (high.getMean() - low.getMean() + (step - 1) / 2) / step);
  double sum = 0;
  for (double number = moving.low; number <= moving.high;
       number += moving.stride)
    sum +=
        low.isConstant() ? between(low.low, number) : between(number, high.low);
  return sum / count;
}

} // namespace mlir::fsdp

#endif // FSDP_LIB_ANALYSIS_CODE_INTERVAL_H
