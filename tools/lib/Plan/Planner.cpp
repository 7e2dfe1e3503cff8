//===- Planner.cpp - From a traced step to a plan -------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Plan/Planner.h"
#include "StepSource.h"
#include "fsdp/Cost/Cluster.h"
#include "fsdp/Driver/AccumulateChoice.h"
#include "fsdp/Driver/OptionValues.h"
#include "fsdp/Driver/StepCommandLine.h"
#include "fsdp/Driver/Trials.h"
#include "fsdp/Driver/WrapChoice.h"
#include "fsdp/Plan/Report/PlanCompare.h"
#include "fsdp/Support/PrintableText.h"
#include "fsdp/Tool/OutputFile.h"

#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace mlir::fsdp;

/// What is asked for, as options, but for what reports name by itself.
static std::string describeOptions(const PlanOptions &options) {
  std::string text;
  llvm::raw_string_ostream os(text);
  for (ListedOption *option : options.getListed())
    if (!llvm::is_contained({"mesh", "cluster", "profile"},
                            option->get().ArgStr))
      option->printGiven(os);
  for (auto [name, value] : {std::pair("memory-budget", &options.memoryBudget),
                             std::pair("compute-dtype", &options.computeDtype),
                             std::pair("fsdp", &options.fsdp)})
    if (!value->empty())
      os << " --" << name << ' ' << *value;
  return StringRef(text).ltrim().str();
}

static llvm::Expected<std::optional<OutputFile>> open(StringRef path) {
  if (path.empty())
    return std::optional<OutputFile>();
  auto file = OutputFile::create(path);
  if (!file)
    return file.takeError();
  return std::optional<OutputFile>(std::move(*file));
}

static llvm::Error write(std::optional<OutputFile> &file,
                         llvm::function_ref<void(raw_ostream &)> print) {
  return file ? file->write(print) : llvm::Error::success();
}

/// Of all wraps that there are to choose from, or of one.
static llvm::Expected<LoweredSteps> lowerAloud(StepSource &source,
                                               const PlanOptions &options) {
  if (options.partition.wrap == kChosenWrap) {
    auto steps = source.lowerWraps(options);
    if (steps)
      return steps;
    llvm::consumeError(steps.takeError());
  }
  auto step = source.lower(options);
  if (!step)
    return step.takeError();
  return LoweredSteps{std::make_shared<const LoweredStep>(std::move(*step))};
}

/// The step and the programs beside it.
static llvm::Expected<FastestPlan> planPrograms(StepSource &source,
                                                const Cluster &cluster,
                                                const PlanOptions &options,
                                                const PlanSettings &settings) {
  auto steps = lowerAloud(source, options);
  if (!steps)
    return steps.takeError();
  auto planned = planFastest(*steps, cluster, options, settings);
  if (!planned)
    return planned.takeError();
  if (llvm::Error error = addFurtherPrograms(*planned->step, cluster, options,
                                             settings, planned->report))
    return std::move(error);
  return planned;
}

static AccumulateTrial getTrial(AccumulateIn in, const PlanReport &report) {
  AccumulateTrial trial;
  trial.in = in;
  int64_t least = report.leastBudget;
  trial.arenaBytes = report.variants.back().arenaBytes;
  for (const FurtherProgram &it : report.further) {
    least = std::max(least, it.leastBudget);
    trial.add(*symbolizeProgramKind(it.kind), it.variant.timeline.step,
              it.variant.arenaBytes);
  }
  trial.fits = least <= report.budget;
  trial.leastBudget = report.getBudgetFor(least);
  return trial;
}

/// The plan with the accumulators that fsdp-compile --accumulate-in auto would
/// take, which @options have then. A note says what either takes.
static llvm::Expected<FastestPlan>
planAccumulators(StepSource &source, const Cluster &cluster,
                 PlanOptions &options, const PlanSettings &settings) {
  SmallVector<AccumulateTrial> trials;
  std::vector<FastestPlan> plans;
  for (AccumulateIn in : {AccumulateIn::Shard, AccumulateIn::Whole}) {
    options.partition.accumulateIn = in;
    auto planned = planPrograms(source, cluster, options, settings);
    if (!planned)
      return planned.takeError();
    trials.push_back(getTrial(in, planned->report));
    plans.push_back(std::move(*planned));
  }
  size_t picked = pickAccumulate(trials);
  options.partition.accumulateIn = trials[picked].in;
  plans[picked].report.notes.push_back(
      describeTrials(ArrayRef(trials), picked));
  return std::move(plans[picked]);
}

llvm::Error fsdp::plan(const PlanOptions &asked) {
  if (!asked.sweep.empty())
    return planSweep(asked);
  // With the accumulators that were chosen, once they are.
  PlanOptions options = asked;
  // What would fail at the end is refused before it takes time.
  PlanSettings settings;
  if (llvm::Error error = readSettings(options, settings))
    return error;
  auto cluster = readCluster(options);
  if (!cluster)
    return cluster.takeError();
  if (settings.budget)
    warnAboveDevice(*settings.budget, *cluster);
  if (llvm::Error error = expectApart({{"the plan", "-"},
                                       {"--timeline", options.timeline},
                                       {"--html", options.html}},
                                      options, options.schedule.cluster,
                                      options.schedule.profile))
    return error;
  auto timeline = open(options.timeline);
  if (!timeline)
    return timeline.takeError();
  auto html = open(options.html);
  if (!html)
    return html.takeError();

  StepSource source(options);
  if (llvm::Error error = source.read())
    return error;
  std::optional<Frontend::TimedPart> timed;
  timed.emplace(source.getFrontend(), "schedule and simulate");
  auto planned = options.partition.accumulateIn == AccumulateIn::Auto
                     ? planAccumulators(source, *cluster, options, settings)
                     : planPrograms(source, *cluster, options, settings);
  if (!planned)
    return planned.takeError();
  PlanReport &report = planned->report;
  report.model = source.getName();
  report.items = source.getItems();
  report.options = describeOptions(options);
  timed.emplace(source.getFrontend(), "the step with code for its kernels");
  addCompiledStep(source, *cluster, options, settings, *planned->step, report);
  timed.reset();
  if (!options.compare.empty()) {
    PlanOptions taken = options;
    taken.partition.wrap = planned->step->wrap;
    if (llvm::Error error = addComparison(taken, *cluster, report))
      return error;
  }
  if (options.whatIf || *html)
    addWhatIfs(source, *cluster, options, settings, planned->step, report);

  timed.emplace(source.getFrontend(), "write");
  if (llvm::Error error = write(*timeline, [&](raw_ostream &os) {
        for (const PlanVariant &variant : report.variants)
          if (variant.name == getWord(options.shownOrder))
            printPlanTrace(report, variant, os);
      }))
    return error;
  if (llvm::Error error =
          write(*html, [&](raw_ostream &os) { printPlanHtml(report, os); }))
    return error;
  if (options.json)
    printPlanJson(report, llvm::outs());
  else
    printPrintable(llvm::outs(), [&](raw_ostream &os) {
      printPlanText(report, os);
      if (!report.compared.empty())
        printComparison(report, os);
    });
  llvm::outs().flush();
  return llvm::Error::success();
}
