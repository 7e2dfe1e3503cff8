//===- SweepTest.cpp - Options to sweep over, and what is best ------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Plan/Sweep.h"

#include "gtest/gtest.h"

using namespace mlir::fsdp;

TEST(Sweep, readsAxesInOrder) {
  auto axes = parseSweep({"mesh=shard=8;shard=8,replicate=4  strategy=no_shard",
                          "budget=1GiB;2GiB wrap=module:A,B"});
  ASSERT_TRUE(bool(axes)) << llvm::toString(axes.takeError());
  ASSERT_EQ(axes->size(), 4u);
  EXPECT_EQ((*axes)[0].name, "mesh");
  EXPECT_EQ((*axes)[0].values,
            (std::vector<std::string>{"shard=8", "shard=8,replicate=4"}));
  EXPECT_EQ((*axes)[2].name, "memory-budget");
  EXPECT_EQ((*axes)[3].values, std::vector<std::string>{"module:A,B"});
}

TEST(Sweep, refusesMorePointsThanAnybodyReads) {
  std::string values = "memory-budget=";
  for (int i = 1; i <= 65; ++i)
    values += std::to_string(i) + (i == 65 ? "" : ";");
  std::string meshes = "mesh=";
  for (int i = 1; i <= 64; ++i)
    meshes += "shard=" + std::to_string(i) + (i == 64 ? "" : ";");
  auto axes = parseSweep({values, meshes});
  ASSERT_FALSE(bool(axes));
  EXPECT_EQ(llvm::toString(axes.takeError()),
            "expected at most 4096 points in --sweep, got at least 4160");
}

static SweepPoint makePoint(Time step, int64_t peak, int64_t ranks,
                            double rate) {
  SweepPoint point;
  point.status = SweepPoint::Fits;
  point.step = step;
  point.peak = peak;
  point.ranks = ranks;
  point.itemsPerSecond = rate;
  return point;
}

TEST(Sweep, marksWhatNothingBeats) {
  SweepReport report;
  report.points = {makePoint(100, 50, 8, 800),  makePoint(110, 40, 8, 700),
                   makePoint(110, 50, 16, 900), makePoint(100, 50, 8, 800),
                   makePoint(90, 60, 16, 850),  makePoint(1, 1, 1, 1e9)};
  // What does not fit beats nobody.
  report.points.back().status = SweepPoint::DoesNotFit;
  markBest(report);
  std::string memory, ranks;
  for (const SweepPoint &point : report.points) {
    memory += point.bestForMemory ? 'y' : 'n';
    ranks += point.bestForRanks ? 'y' : 'n';
  }
  // Equal points share a mark.
  EXPECT_EQ(memory, "yynyyn");
  EXPECT_EQ(ranks, "ynyynn");
}
