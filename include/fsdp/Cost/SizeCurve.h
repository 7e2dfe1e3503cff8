//===- SizeCurve.h - Times known at some sizes ------------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_COST_SIZECURVE_H
#define FSDP_COST_SIZECURVE_H

#include "llvm/ADT/ArrayRef.h"

#include <utility>
#include <vector>

namespace mlir::fsdp {

/// Time as a function of size, from points. Between two points it follows the
/// power of the size that meets both (a line in logarithms), so it is exact at
/// each. It never falls as the size grows: a point below its predecessor,
/// which only noise makes, is raised to it.
class SizeCurve {
public:
  enum class Below {
    /// Smaller sizes take as long as the smallest known: a latency.
    Constant,
    /// Smaller sizes have the rate of the smallest known.
    Proportional
  };

  /// The same rate at every size.
  SizeCurve() = default;

  /// @points are (size, time), both positive, sizes ascending.
  static SizeCurve fromTimes(llvm::ArrayRef<std::pair<double, double>> points,
                             Below below);
  /// @points are (size, efficiency): the time is size / efficiency, for a
  /// caller who divides by the peak rate.
  static SizeCurve
  fromEfficiency(llvm::ArrayRef<std::pair<double, double>> points);

  /// The same smallest time, and beyond it @factor times less.
  SizeCurve withFasterRate(double factor) const;

  /// The time of @size; above the last point, in proportion to it.
  double time(double size) const;
  /// size / time.
  double efficiency(double size) const;

  bool isConstant() const { return points.empty(); }
  /// The most size / time at any size; 0 without points.
  double bestRate() const;
  /// The first point's time; 0 without points.
  double smallestTime() const;

private:
  std::vector<std::pair<double, double>> points;
  Below below = Below::Proportional;
};

/// The value at @x of the line through (x0, y0) and (x1, y1) in logarithms.
double interpolateLog(double x, double x0, double y0, double x1, double y1);

} // namespace mlir::fsdp

#endif // FSDP_COST_SIZECURVE_H
