//===- Sweep.cpp - Many plans of one step ---------------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Plan/Sweep.h"
#include "StepSource.h"
#include "fsdp/Analysis/Step/FlatLayout.h"
#include "fsdp/Analysis/Step/Strategy.h"
#include "fsdp/Analysis/Step/WrapPolicy.h"
#include "fsdp/Driver/OptionValues.h"
#include "fsdp/Driver/StepCommandLine.h"
#include "fsdp/Support/PrintableText.h"
#include "fsdp/Tool/OutputFile.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/ThreadPool.h"

using namespace mlir;
using namespace mlir::fsdp;
using namespace mlir::fsdp::sched;

/// What --sweep may name.
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
                                   llvm::join(ArrayRef(kAxes), ", ") +
                                   ", got '" + name + "'");
  SweepAxis axis;
  axis.name = name.str();
  SmallVector<StringRef> all;
  // Unlike llvm::split, this makes one empty value where there is no '='.
  values.split(all, ';');
  for (StringRef value : all) {
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

/// @name: of kAxes. Returns true where the option has refused @value, and has
/// printed why: it is none of its words.
static bool setOption(PlanOptions &options, StringRef name, StringRef value) {
  if (name == "memory-budget")
    options.memoryBudget = value.str();
  if (name == "compute-dtype")
    options.computeDtype = value.str();
  return llvm::any_of(options.getListed(), [&](ListedOption *option) {
    return option->get().ArgStr == name &&
           option->get().addOccurrence(0, name, value);
  });
}

/// A value that is wrong whatever the other options are ends the sweep: it is a
/// mistake in typing. What is wrong in combination, or for this model (classes
/// that it lacks), is a point that is refused.
static llvm::Error checkValue(const PlanOptions &options, StringRef axis,
                              StringRef value) {
  PlanSettings settings;
  if (axis == "mesh")
    return MeshShape::parse(value).takeError();
  if (axis == "cluster")
    return readCluster(options).takeError();
  if (axis == "memory-budget" || axis == "compute-dtype") {
    if (llvm::Error error = readSettings(options, settings))
      return error;
    if (settings.budget && !options.schedule.cluster.empty()) {
      auto cluster = readCluster(options);
      if (!cluster)
        return cluster.takeError();
      warnAboveDevice(*settings.budget, *cluster);
    }
    return llvm::Error::success();
  }
  if (axis == "wrap")
    return WrapPolicy::parse(value).takeError();
  // What is left is a word, which its option has taken, or a type.
  MLIRContext context;
  if (axis.ends_with("dtype") && !parseFloatType(&context, value))
    return llvm::createStringError("expected " + kFloatTypeWords + " as --" +
                                   axis + ", got '" + value + "'");
  return llvm::Error::success();
}

static llvm::Error checkAxes(const PlanOptions &options,
                             ArrayRef<SweepAxis> axes) {
  for (const SweepAxis &axis : axes)
    for (StringRef value : axis.values) {
      PlanOptions changed = options;
      if (setOption(changed, axis.name, value))
        return llvm::make_error<ReportedError>("");
      if (llvm::Error error = checkValue(changed, axis.name, value))
        return error;
    }
  return llvm::Error::success();
}

/// All points, the last axis fastest, with the options of each.
static std::vector<PlanOptions> makePoints(const PlanOptions &options,
                                           SweepReport &report) {
  std::vector<PlanOptions> all;
  size_t count = 1;
  for (const SweepAxis &axis : report.axes)
    count *= axis.values.size();
  for (size_t i = 0; i != count; ++i) {
    SweepPoint point;
    PlanOptions changed = options;
    size_t rest = i;
    for (const SweepAxis &axis : llvm::reverse(report.axes)) {
      point.values.push_back(axis.values[rest % axis.values.size()]);
      rest /= axis.values.size();
      setOption(changed, axis.name, point.values.back());
    }
    std::reverse(point.values.begin(), point.values.end());
    point.mesh = changed.partition.mesh;
    if (auto mesh = MeshShape::parse(changed.partition.mesh))
      point.ranks = mesh->getWorldSize();
    else
      llvm::consumeError(mesh.takeError());
    report.points.push_back(std::move(point));
    all.push_back(std::move(changed));
  }
  return all;
}

static llvm::Expected<LoweredSteps> lowerPoint(StepSource &source,
                                               const PlanOptions &options) {
  if (llvm::Error error = checkTogether(options))
    return std::move(error);
  return source.lowerWraps(options);
}

static void fillPoint(const PlanReport &report, const StepItems &items,
                      SweepPoint &point) {
  const PlanVariant &best = report.getBest();
  point.strategy = report.strategy;
  point.step = best.timeline.step;
  point.compute = best.timeline.compute;
  point.exposed = best.timeline.exposed;
  point.bound = report.bound;
  point.fsdpStep = report.variants.front().timeline.step;
  point.plan = best.title;
  point.peak = getMemoryPeak(best.memory).getTotal();
  point.budget = report.budget;
  point.leastBudget = report.leastBudget;
  point.itemsPerSecond = double(items.perRank) * double(report.worldSize) /
                         std::max(1e-12, toSeconds(point.step));
  point.status = report.fits() ? SweepPoint::Fits : SweepPoint::DoesNotFit;
  if (!report.fits())
    point.reason = describeMisfit(report);
}

static void planPoint(llvm::Expected<LoweredSteps> steps,
                      const PlanOptions &options, const StepItems &items,
                      SweepPoint &point) {
  auto refuse = [&](llvm::Error error) {
    point.reason = llvm::toString(std::move(error));
  };
  if (!steps)
    return refuse(steps.takeError());
  PlanSettings settings;
  if (llvm::Error error = readSettings(options, settings))
    return refuse(std::move(error));
  auto cluster = readCluster(options);
  if (!cluster)
    return refuse(cluster.takeError());
  settings.onlyBest = true;
  auto planned = planFastest(*steps, *cluster, options, settings);
  if (!planned)
    return refuse(planned.takeError());
  fillPoint(planned->report, items, point);
  if (planned->step->wrap != options.partition.wrap)
    point.plan += ", wrap " + planned->step->wrap;
}

llvm::Error fsdp::planSweep(const PlanOptions &options) {
  SweepReport report;
  auto axes = parseSweep(options.sweep);
  if (!axes)
    return axes.takeError();
  report.axes = std::move(*axes);
  if (options.partition.accumulateIn == AccumulateIn::Auto)
    return llvm::createStringError(
        "expected --accumulate-in shard or whole beside --sweep, got auto: a "
        "sweep compares steps");
  PlanSettings unused;
  if (llvm::Error error = readSettings(options, unused))
    return error;
  // Where clusters are an axis none is needed beside them.
  std::vector<std::string> clusters = {options.schedule.cluster};
  for (const SweepAxis &axis : report.axes)
    if (axis.name == "cluster")
      clusters = axis.values;
  PlanOptions first = options;
  first.schedule.cluster = clusters.front();
  auto cluster = readCluster(first);
  if (!cluster)
    return cluster.takeError();
  if (llvm::Error error = checkAxes(options, report.axes))
    return error;
  for (StringRef file : clusters)
    if (llvm::Error error =
            expectApart({{"the table", "-"}, {"--html", options.html}}, options,
                        file, options.schedule.profile))
      return error;
  std::optional<OutputFile> html;
  if (!options.html.empty()) {
    auto file = OutputFile::create(options.html);
    if (!file)
      return file.takeError();
    html.emplace(std::move(*file));
  }

  StepSource source(options);
  if (llvm::Error error = source.read())
    return error;
  report.model = source.getName();
  report.cluster = cluster->name;
  report.item = source.getItems().name;
  report.code.isIdeal = hasIdealKernels(options, *cluster);
  std::vector<PlanOptions> settings = makePoints(options, report);
  for (const SweepAxis &axis : report.axes)
    if (axis.name == "cluster")
      report.cluster = std::to_string(axis.values.size()) + " clusters";
  {
    Frontend::TimedPart timed(source.getFrontend(), "schedule and simulate");
    // IR belongs to this thread; plans of lowered steps run beside it.
    llvm::DefaultThreadPool pool;
    for (size_t i = 0; i != settings.size(); ++i) {
      auto steps = lowerPoint(source, settings[i]);
      if (!steps) {
        planPoint(std::move(steps), settings[i], source.getItems(),
                  report.points[i]);
        continue;
      }
      pool.async([&, i, lowered = *steps] {
        planPoint(lowered, settings[i], source.getItems(), report.points[i]);
      });
    }
    pool.wait();
  }
  markBest(report);

  if (html)
    if (llvm::Error error =
            html->write([&](raw_ostream &os) { printSweepHtml(report, os); }))
      return error;
  if (options.json)
    printSweepJson(report, llvm::outs());
  else
    printPrintable(llvm::outs(),
                   [&](raw_ostream &os) { printSweepText(report, os); });
  llvm::outs().flush();
  if (report.count(SweepPoint::Refused) == int64_t(report.points.size()))
    return llvm::createStringError(
        "expected at least one point of --sweep that can be "
        "planned, got none; the first: " +
        report.points.front().reason);
  return llvm::Error::success();
}
