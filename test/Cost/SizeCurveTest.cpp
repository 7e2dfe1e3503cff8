//===- SizeCurveTest.cpp - Times between known sizes ----------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Cost/SizeCurve.h"

#include <gtest/gtest.h>

#include <cmath>

using namespace mlir::fsdp;

using Points = std::vector<std::pair<double, double>>;

TEST(SizeCurve, IsExactAtItsPoints) {
  Points points = {{16, 3}, {64, 7}, {1024, 31.5}, {65536, 900.25}};
  SizeCurve curve = SizeCurve::fromTimes(points, SizeCurve::Below::Constant);
  for (auto [size, time] : points)
    EXPECT_EQ(curve.time(size), time) << size;
  Points ratios = {{1e6, .3}, {1e7, .6}, {1e8, .9}};
  SizeCurve efficiency = SizeCurve::fromEfficiency(ratios);
  for (auto [size, ratio] : ratios)
    EXPECT_DOUBLE_EQ(efficiency.efficiency(size), ratio) << size;
}

TEST(SizeCurve, FollowsAPowerBetweenPoints) {
  // From (4, 10) to (64, 40): the time doubles where the size is fourfold.
  SizeCurve curve = SizeCurve::fromTimes(Points{{4, 10}, {64, 40}},
                                         SizeCurve::Below::Constant);
  EXPECT_NEAR(curve.time(16), 20, 1e-12);
}

TEST(SizeCurve, BeyondItsPoints) {
  Points points = {{4, 10}, {64, 40}};
  SizeCurve latency = SizeCurve::fromTimes(points, SizeCurve::Below::Constant);
  SizeCurve rate = SizeCurve::fromTimes(points, SizeCurve::Below::Proportional);
  EXPECT_DOUBLE_EQ(latency.time(1), 10);
  EXPECT_DOUBLE_EQ(rate.time(1), 2.5);
  EXPECT_DOUBLE_EQ(latency.time(128), 80);
  EXPECT_DOUBLE_EQ(rate.time(128), 80);
  EXPECT_EQ(latency.time(0), 0);
}

TEST(SizeCurve, NeverFallsEvenWhereMeasurementsDo) {
  SizeCurve curve = SizeCurve::fromTimes(Points{{1, 5}, {2, 4}, {4, 9}},
                                         SizeCurve::Below::Proportional);
  EXPECT_EQ(curve.time(2), 5);
  double last = 0;
  for (double size = 0.25; size < 16; size *= 1.03) {
    EXPECT_GE(curve.time(size), last) << size;
    last = curve.time(size);
  }
}

TEST(SizeCurve, TheBestRateIsThatOfAPoint) {
  SizeCurve curve = SizeCurve::fromTimes(Points{{1, 5}, {8, 10}, {16, 40}},
                                         SizeCurve::Below::Constant);
  EXPECT_DOUBLE_EQ(curve.bestRate(), 0.8);
  for (double size = 0.25; size < 64; size *= 1.03)
    EXPECT_LE(size / curve.time(size), curve.bestRate() * (1 + 1e-12)) << size;
  EXPECT_EQ(SizeCurve().bestRate(), 0);
}

TEST(SizeCurve, WithoutPointsIsTheSizeItself) {
  EXPECT_EQ(SizeCurve().time(12.5), 12.5);
  EXPECT_EQ(SizeCurve().efficiency(12.5), 1);
}
