//===- SizeCurve.cpp - Times known at some sizes --------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Cost/SizeCurve.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cassert>
#include <cmath>

using namespace mlir::fsdp;

double mlir::fsdp::interpolateLog(double x, double x0, double y0, double x1,
                                  double y1) {
  // The ends exactly: exp and log round.
  if (x <= x0)
    return y0;
  if (x >= x1)
    return y1;
  return y0 *
         std::exp(std::log(y1 / y0) * std::log(x / x0) / std::log(x1 / x0));
}

SizeCurve SizeCurve::fromTimes(llvm::ArrayRef<std::pair<double, double>> points,
                               Below below) {
  SizeCurve curve;
  curve.below = below;
  double longest = 0;
  for (auto [size, time] : points) {
    assert(size > 0 && time > 0 && "sizes and times are positive");
    longest = std::max(longest, time);
    curve.points.emplace_back(size, longest);
  }
  return curve;
}

SizeCurve
SizeCurve::fromEfficiency(llvm::ArrayRef<std::pair<double, double>> points) {
  std::vector<std::pair<double, double>> times;
  for (auto [size, ratio] : points)
    times.emplace_back(size, size / ratio);
  return fromTimes(times, Below::Proportional);
}

SizeCurve SizeCurve::withFasterRate(double factor) const {
  SizeCurve curve = *this;
  double latency = smallestTime();
  for (auto &[size, time] : curve.points)
    time = latency + (time - latency) / factor;
  return curve;
}

double SizeCurve::time(double size) const {
  if (size <= 0)
    return 0;
  if (points.empty())
    return size;
  auto next = llvm::lower_bound(points, size, [](const auto &point, double s) {
    return point.first < s;
  });
  if (next == points.begin())
    return below == Below::Constant ? next->second
                                    : next->second * (size / next->first);
  auto previous = std::prev(next);
  if (next == points.end())
    return previous->second * (size / previous->first);
  return interpolateLog(size, previous->first, previous->second, next->first,
                        next->second);
}

double SizeCurve::efficiency(double size) const {
  return points.empty() || size <= 0 ? 1.0 : size / time(size);
}

double SizeCurve::bestRate() const {
  // Between two points the rate is between theirs.
  double best = 0;
  for (auto [size, time] : points)
    best = std::max(best, size / time);
  return best;
}

double SizeCurve::smallestTime() const {
  return points.empty() ? 0.0 : points.front().second;
}
