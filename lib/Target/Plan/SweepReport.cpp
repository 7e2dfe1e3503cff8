//===- SweepReport.cpp - Many plans of one step, side by side -------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Target/Sweep.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir::fsdp;
using llvm::StringRef;

static constexpr llvm::StringLiteral kAxes[] = {
    "mesh",          "strategy",    "wrap",         "cluster",
    "memory-budget", "param-dtype", "reduce-dtype", "buffer-dtype",
    "compute-dtype", "recompute",   "offload"};
/// More is a mistake in typing rather than a question.
static constexpr size_t kMostPoints = 4096;

static llvm::Expected<SweepAxis> parseAxis(StringRef text) {
  auto [name, values] = text.split('=');
  if (name == "budget")
    name = "memory-budget";
  if (!llvm::is_contained(kAxes, name))
    return llvm::createStringError("expected --sweep to name one of " +
                                   llvm::join(llvm::ArrayRef(kAxes), ", ") +
                                   ", got '" + name + "'");
  SweepAxis axis;
  axis.name = name.str();
  for (StringRef value : llvm::split(values, ';')) {
    if (value.empty())
      return llvm::createStringError("expected values of " + name +
                                     " apart by ';' in --sweep, got '" + text +
                                     "'");
    if (llvm::is_contained(axis.values, value))
      return llvm::createStringError("expected each value of " + name +
                                     " once in --sweep, got '" + value +
                                     "' twice");
    axis.values.push_back(value.str());
  }
  return axis;
}

llvm::Expected<std::vector<SweepAxis>>
mlir::fsdp::parseSweep(llvm::ArrayRef<std::string> texts) {
  std::vector<SweepAxis> axes;
  size_t points = 1;
  for (StringRef text : texts)
    for (StringRef part : llvm::split(text, ' ')) {
      if (part.empty())
        continue;
      llvm::Expected<SweepAxis> axis = parseAxis(part);
      if (!axis)
        return axis.takeError();
      for (const SweepAxis &other : axes)
        if (other.name == axis->name)
          return llvm::createStringError("expected " + axis->name +
                                         " once in --sweep, got it twice");
      points *= axis->values.size();
      if (points > kMostPoints)
        return llvm::createStringError(
            "expected at most " + llvm::Twine(kMostPoints) +
            " points in --sweep, got at least " + llvm::Twine(points));
      axes.push_back(std::move(*axis));
    }
  if (axes.empty())
    return llvm::createStringError(
        "expected --sweep to hold an option and its values, such "
        "as 'mesh=shard=8;shard=64', got nothing");
  return axes;
}

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

StringRef mlir::fsdp::getStatusName(SweepPoint::Status status) {
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
