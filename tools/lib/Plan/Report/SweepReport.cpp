//===- SweepReport.cpp - Many plans of one step, side by side -------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Plan/Report/SweepReport.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir::fsdp;

int64_t SweepReport::count(SweepPoint::Status status) const {
  return llvm::count_if(
      points, [&](const SweepPoint &point) { return point.status == status; });
}

/// Whether @a is at least as good as @b in both, and better in one: less of
/// each is better.
template <typename First, typename Second>
static bool beats(std::pair<First, Second> a, std::pair<First, Second> b) {
  return a != b && a.first <= b.first && a.second <= b.second;
}

void mlir::fsdp::markBest(SweepReport &report) {
  auto byMemory = [](const SweepPoint &p) {
    return std::make_pair(p.step, p.peak);
  };
  auto byRanks = [](const SweepPoint &p) {
    return std::make_pair(p.ranks, -p.itemsPerSecond);
  };
  for (SweepPoint &point : report.points) {
    bool fits = point.status == SweepPoint::Fits;
    point.bestForMemory = point.bestForRanks = fits;
    for (const SweepPoint &other : report.points) {
      if (other.status != SweepPoint::Fits)
        continue;
      if (beats(byMemory(other), byMemory(point)))
        point.bestForMemory = false;
      if (beats(byRanks(other), byRanks(point)))
        point.bestForRanks = false;
    }
  }
}

llvm::StringRef mlir::fsdp::getStatusName(SweepPoint::Status status) {
  switch (status) {
  case SweepPoint::Fits:
    return "fits";
  case SweepPoint::DoesNotFit:
    return "does_not_fit";
  case SweepPoint::Refused:
    return "refused";
  }
  llvm_unreachable("not a status");
}
