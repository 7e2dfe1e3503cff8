//===- StepChoices.cpp - What is left to the compiler ---------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "StepChoices.h"
#include "fsdp/Dialect/FSDP/IR/AttributeNames.h"
#include "fsdp/Driver/Trials.h"
#include "fsdp/Support/PrintableText.h"

#include "mlir/IR/Remarks.h"

using namespace mlir;
using namespace mlir::fsdp;

/// Plans programs of a copy of the step as they would be compiled with these
/// options. Says nothing: where one choice cannot be, others can.
llvm::Expected<StepChoices::Trial>
StepChoices::tryStep(const StepOptions &changed,
                     llvm::function_ref<bool(ProgramOp)> isTried) {
  OwningOpRef<ModuleOp> module = frontend.getModule().clone();
  ScopedDiagnosticHandler quiet(module->getContext(),
                                [](Diagnostic &) { return success(); });
  SmallVector<Stage> stages = getPartitionStages(changed, Level::L0, Level::L2);
  llvm::append_range(stages, getKernelCodeStages(targets));
  for (const Stage &stage : stages)
    if (llvm::Error error = frontend.runStage(*module, stage))
      return std::move(error);
  Trial trial;
  auto found = scheduler->findPlans(frontend, *module, isTried);
  if (!found)
    return found.takeError();
  trial.plans = std::move(*found);
  auto budget = (*module)->getAttrOfType<BudgetAttr>(names::kBudget);
  for (const auto &[name, plan] : trial.plans)
    trial.leastBudget =
        std::max(trial.leastBudget, plan.leastBytes + budget.getReserved());
  return trial;
}

/// Plans the program that trains with that wrap.
llvm::Error StepChoices::tryWrap(StringRef wrap) {
  CompileOptions changed = options;
  changed.partition.wrap = wrap.str();
  // What is chosen afterwards takes at least as much memory.
  if (choosesAccumulators())
    changed.partition.accumulateIn = AccumulateIn::Shard;
  auto trial = tryStep(changed, [](ProgramOp program) {
    return getTraits(program.getKind()).isStep;
  });
  if (!trial)
    return trial.takeError();
  const ProgramPlan &plan = trial->plans.begin()->second;
  wraps.push_back(
      {wrap.str(), plan.fits(), plan.outcome.time, trial->leastBudget});
  planned.push_back(std::move(trial->plans));
  return llvm::Error::success();
}

void StepChoices::chooseWrap() {
  std::vector<std::string> all = getWraps(frontend.getModule());
  for (const std::string &wrap : all)
    llvm::consumeError(tryWrap(wrap));
  // Where none can be, compiling the first says why.
  options.partition.wrap = all.front();
  if (wraps.empty())
    return;
  wrap = pickWrap(wraps);
  options.partition.wrap = wraps[wrap].wrap;
  plans = planned[wrap];
}

/// Plans all programs with such accumulators, whose memory each of them needs.
llvm::Error StepChoices::tryAccumulators(AccumulateIn in) {
  CompileOptions changed = options;
  changed.partition.accumulateIn = in;
  llvm::StringMap<ProgramKind> kinds;
  auto trial = tryStep(changed, [&](ProgramOp program) {
    kinds[program.getSymName()] = program.getKind();
    return true;
  });
  if (!trial)
    return trial.takeError();
  AccumulateTrial tried;
  tried.in = in;
  tried.fits = llvm::all_of(trial->plans,
                            [](const auto &it) { return it.second.fits(); });
  tried.leastBudget = trial->leastBudget;
  for (const auto &[name, plan] : trial->plans)
    tried.add(kinds[name], plan.outcome.time, plan.outcome.bytes);
  accumulators.push_back(tried);
  planned.push_back(std::move(trial->plans));
  return llvm::Error::success();
}

void StepChoices::chooseAccumulators() {
  planned.clear();
  // Where none can be, compiling the first says why.
  plans.clear();
  for (AccumulateIn in : {AccumulateIn::Shard, AccumulateIn::Whole})
    llvm::consumeError(tryAccumulators(in));
  options.partition.accumulateIn = AccumulateIn::Shard;
  if (accumulators.empty())
    return;
  accumulator = pickAccumulate(accumulators);
  options.partition.accumulateIn = accumulators[accumulator].in;
  plans = planned[accumulator];
}

void StepChoices::choose() {
  if (choosesWrap())
    chooseWrap();
  if (choosesAccumulators())
    chooseAccumulators();
}

/// Makes a remark @name of @pass for each trial, and prints all trials to
/// stderr in a line. The reason of a trial that fits and was not taken is @why,
/// a format string, with @takenName in it.
template <typename Trial>
static void reportTrials(Location loc, StringRef name, StringRef pass,
                         ArrayRef<Trial> trials, size_t taken, const char *why,
                         StringRef takenName) {
  auto remarkOn = remark::RemarkOpts::name(name).category(pass);
  for (auto [i, trial] : llvm::enumerate(trials)) {
    if (i == taken && trial.fits) {
      remark::passed(loc, remarkOn) << describe(trial);
      continue;
    }
    auto missed = remark::missed(loc, remarkOn);
    missed << describe(trial);
    if (trial.fits)
      missed << remark::reason(why, takenName);
  }
  llvm::errs() << makePrintable(describeTrials(trials, taken)) << "\n";
}

void StepChoices::report() {
  Location loc = frontend.getModule().getLoc();
  // One wrap alone was no choice.
  if (wraps.size() > 1)
    reportTrials(loc, "Wrap", "fsdp-assign-units", ArrayRef(wraps), wrap,
                 "{0} is no slower", wraps[wrap].wrap);
  if (!accumulators.empty())
    reportTrials(loc, "AccumulateIn", "fsdp-add-accumulation",
                 ArrayRef(accumulators), accumulator,
                 "micro-batches in {0} are no slower",
                 getWord(accumulators[accumulator].in));
}
