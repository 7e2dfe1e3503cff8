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
#include "fsdp/Tool/OutputFile.h"
#include "fsdp/Tool/PrintableText.h"

#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace mlir::fsdp;

/// What is asked for beside the mesh and the cluster, as options.
static std::string describeOptions(const PlanOptions &options) {
  constexpr std::pair<StringLiteral, std::string PlanOptions::*> kTexts[] = {
      {"strategy", &PlanOptions::strategy},
      {"wrap", &PlanOptions::wrap},
      {"param-dtype", &PlanOptions::paramDtype},
      {"reduce-dtype", &PlanOptions::reduceDtype},
      {"buffer-dtype", &PlanOptions::bufferDtype},
      {"output-dtype", &PlanOptions::outputDtype},
      {"optimizer", &PlanOptions::optimizer},
      {"reshard-after-forward", &PlanOptions::reshardAfterForward},
      {"recompute", &PlanOptions::recompute},
      {"offload", &PlanOptions::offload},
      {"bucket", &PlanOptions::bucket},
      {"memory-budget", &PlanOptions::memoryBudget},
      {"compute-dtype", &PlanOptions::computeDtype},
      {"fsdp", &PlanOptions::fsdp}};
  const PlanOptions unset;
  SmallVector<std::string> result;
  for (auto [name, text] : kTexts)
    if (options.*text != unset.*text)
      result.push_back(("--" + name + " " + options.*text).str());
  for (const std::string &pattern : options.ignore)
    result.push_back("--ignore " + pattern);
  for (const std::string &pattern : options.replicate)
    result.push_back("--replicate " + pattern);
  if (options.clip)
    result.push_back("--clip-norm");
  if (options.skipNonfinite)
    result.push_back("--skip-nonfinite");
  if (options.offloadOptimizer)
    result.push_back("--offload-optimizer");
  if (options.evalFullPrecision)
    result.push_back("--eval-full-precision");
  if (options.accumulateIn != unset.accumulateIn)
    result.push_back("--accumulate-in " +
                     stringify(options.accumulateIn).str());
  if (options.attention != unset.attention)
    result.push_back("--attention decomposed");
  return llvm::join(result, " ");
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
  if (options.wrap == kChosenWrap) {
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
  auto add = [&](ProgramKind kind, const PlanVariant &variant) {
    trial.add(kind, variant.timeline.step, variant.arenaBytes);
  };
  add(ProgramKind::train, report.variants.back());
  for (const FurtherProgram &it : report.further) {
    least = std::max(least, it.leastBudget);
    add(*symbolizeProgramKind(it.kind), it.variant);
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
    options.accumulateIn = in;
    auto planned = planPrograms(source, cluster, options, settings);
    if (!planned)
      return planned.takeError();
    trials.push_back(getTrial(in, planned->report));
    plans.push_back(std::move(*planned));
  }
  size_t picked = pickAccumulate(trials);
  options.accumulateIn = trials[picked].in;
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
  if (llvm::Error error =
          expectApart({{"the plan", "-"},
                       {"--timeline", options.timeline},
                       {"--html", options.html}},
                      options, options.cluster, options.profile))
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
  auto planned = options.accumulateIn == AccumulateIn::Auto
                     ? planAccumulators(source, *cluster, options, settings)
                     : planPrograms(source, *cluster, options, settings);
  if (!planned)
    return planned.takeError();
  PlanReport &report = planned->report;
  report.model = source.getName();
  report.items = source.getItems();
  report.options = describeOptions(options);
  source.getWatch().lap("schedule and simulate");
  if (!options.compare.empty()) {
    PlanOptions taken = options;
    taken.wrap = planned->step->wrap;
    if (llvm::Error error = addComparison(taken, *cluster, report))
      return error;
  }
  if (options.whatIf || *html)
    addWhatIfs(source, *cluster, options, settings, planned->step, report);

  if (llvm::Error error = write(*timeline, [&](raw_ostream &os) {
        for (const PlanVariant &variant : report.variants)
          if (variant.name == options.order)
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
  source.getWatch().lap("write");
  return llvm::Error::success();
}
