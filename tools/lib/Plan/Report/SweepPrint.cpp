//===- SweepPrint.cpp - The forms of a sweep ------------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Cost/FormatBytes.h"
#include "fsdp/Plan/Report/SweepReport.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"

using namespace mlir::fsdp;
using llvm::format;
using llvm::StringRef;

static const char kPage[] =
#include "sweep.html.inc"
    ;

/// 1234567.8: "1,234,568"; small numbers with three digits.
static std::string formatRate(double rate) {
  if (rate < 100)
    return llvm::formatv("{0:f2}", rate).str();
  return llvm::formatv("{0:N}", int64_t(rate + 0.5)).str();
}

/// As wide as the widest of @cells.
static size_t getWidth(StringRef title, llvm::ArrayRef<SweepPoint> points,
                       llvm::function_ref<StringRef(const SweepPoint &)> cell) {
  size_t width = title.size();
  for (const SweepPoint &point : points)
    width = std::max(width, cell(point).size());
  return width;
}

void mlir::fsdp::printSweepText(const SweepReport &report,
                                llvm::raw_ostream &os) {
  os << report.model << " on " << report.cluster << ": " << report.points.size()
     << (report.points.size() == 1 ? " point, " : " points, ")
     << report.count(SweepPoint::Fits) << " fit, "
     << report.count(SweepPoint::DoesNotFit) << " do not, "
     << report.count(SweepPoint::Refused) << " refused\n";
  if (std::string code = describeCode(report.code); !code.empty())
    os << code << "\n";
  os << "\n";

  std::vector<size_t> widths;
  for (size_t i = 0; i != report.axes.size(); ++i)
    widths.push_back(getWidth(
        report.axes[i].name, report.points,
        [&](const SweepPoint &p) -> StringRef { return p.values[i]; }));
  for (auto [axis, width] : llvm::zip(report.axes, widths))
    os << llvm::left_justify(axis.name, width) << "  ";
  os << " ranks     step ms   exposed ms  "
     << llvm::right_justify(report.item + "/s", 14) << "         peak\n";
  for (const SweepPoint &point : report.points) {
    for (auto [value, width] : llvm::zip(point.values, widths))
      os << llvm::left_justify(value, width) << "  ";
    if (point.status != SweepPoint::Fits) {
      os << format("%6lld  ", (long long)point.ranks)
         << (point.status == SweepPoint::Refused ? "refused: "
                                                 : "does not fit: ")
         << point.reason << "\n";
      continue;
    }
    os << format("%6lld  %10.3f   %10.3f  ", (long long)point.ranks,
                 toMs(point.step), toMs(point.exposed))
       << llvm::right_justify(formatRate(point.itemsPerSecond), 14) << "  "
       << llvm::right_justify(formatBytes(point.peak), 11)
       << (point.bestForMemory ? "  M" : "   ")
       << (point.bestForRanks ? " R" : "  ")
       << StringRef(point.plan).substr(StringRef(point.plan).find(':') + 1)
       << "\n";
  }
  os << "\nM: no point is faster with as little memory\n"
     << "R: no point trains more " << report.item
     << " in a second on as few ranks\n";
}

static void writePoint(llvm::json::OStream &json, const SweepReport &report,
                       const SweepPoint &point) {
  json.object([&] {
    json.attributeObject("options", [&] {
      for (auto [axis, value] : llvm::zip(report.axes, point.values))
        json.attribute(axis.name, value);
    });
    json.attribute("mesh", point.mesh);
    json.attribute("ranks", point.ranks);
    json.attribute("status", getStatusName(point.status));
    if (!point.reason.empty())
      json.attribute("reason", point.reason);
    if (point.status == SweepPoint::Refused)
      return;
    json.attribute("strategy", point.strategy);
    json.attribute("plan", point.plan);
    json.attribute("step_ms", toMs(point.step));
    json.attribute("compute_ms", toMs(point.compute));
    json.attribute("exposed_ms", toMs(point.exposed));
    json.attribute("bound_ms", toMs(point.bound));
    json.attribute("fsdp_step_ms", toMs(point.fsdpStep));
    json.attribute("items_per_s", point.itemsPerSecond);
    json.attribute("peak_bytes", point.peak);
    json.attribute("budget_bytes", point.budget);
    json.attribute(point.status == SweepPoint::Fits ? "planned_arena_bytes"
                                                    : "least_budget_bytes",
                   point.leastBudget);
    json.attribute("best_for_memory", point.bestForMemory);
    json.attribute("best_for_ranks", point.bestForRanks);
  });
}

static void writeSweep(const SweepReport &report, llvm::raw_ostream &os,
                       unsigned indent) {
  llvm::json::OStream json(os, indent);
  json.object([&] {
    json.attribute("format", "fsdp-sweep/1");
    json.attribute("model", report.model);
    json.attribute("cluster", report.cluster);
    json.attribute("item", report.item);
    json.attributeArray("axes", [&] {
      for (const SweepAxis &axis : report.axes)
        json.value(axis.name);
    });
    json.attributeArray("points", [&] {
      for (const SweepPoint &point : report.points)
        writePoint(json, report, point);
    });
  });
}

void mlir::fsdp::printSweepJson(const SweepReport &report,
                                llvm::raw_ostream &os) {
  writeSweep(report, os, /*indent=*/2);
  os << "\n";
}

void mlir::fsdp::printSweepHtml(const SweepReport &report,
                                llvm::raw_ostream &os) {
  std::string data;
  llvm::raw_string_ostream stream(data);
  writeSweep(report, stream, /*indent=*/0);
  printPage(kPage, data, os);
}

void mlir::fsdp::printPage(StringRef page, StringRef data,
                           llvm::raw_ostream &os) {
  // Names come from the model: none may end the script that holds them.
  auto [before, after] = page.split("@DATA@");
  os << before;
  for (char c : data)
    if (c == '<')
      os << "\\u003c";
    else
      os << c;
  os << after;
}
