//===- StepSource.cpp - One traced step, planned in many ways -------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "StepSource.h"
#include "fsdp/Analysis/Contract/InputContract.h"
#include "fsdp/Analysis/Step/StepBudget.h"
#include "fsdp/Analysis/Step/StepExtraction.h"
#include "fsdp/Analysis/Step/StepStructure.h"
#include "fsdp/Analysis/Step/StepSums.h"
#include "fsdp/Cost/ClusterFile.h"
#include "fsdp/Driver/AccumulateChoice.h"
#include "fsdp/Driver/Trials.h"
#include "fsdp/Driver/WrapChoice.h"
#include "fsdp/Passes/Passes.h"
#include "fsdp/Schedule/ClusterCost.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace mlir::fsdp;
using namespace mlir::fsdp::sched;

StepSource::StepSource(const PlanOptions &options)
    : options(options), frontend(options) {}

/// One sentence for each reason why attention stays in pieces.
static std::vector<std::string>
describeUnfused(ArrayRef<LoggedRemark> remarks) {
  llvm::MapVector<StringRef, SmallVector<StringRef>> places;
  for (const LoggedRemark &remark : remarks) {
    auto path = remark.loc->findInstanceOf<NameLoc>();
    places[remark.text].push_back(path ? path.getName().getValue() : "");
  }
  std::vector<std::string> notes;
  for (auto &[reason, paths] : places) {
    std::string where =
        paths.front().empty() ? "" : " in " + paths.front().str();
    if (paths.size() > 1)
      where += " and " + std::to_string(paths.size() - 1) + " more";
    notes.push_back("attention" + where +
                    " is not fused, so it is costed and kept in memory in "
                    "pieces: " +
                    reason.str());
  }
  return notes;
}

static StringRef describeSums(Adder adder) {
  return adder == Adder::exact
             ? "sums over ranks are made by kernels of the runtime, with the "
               "bits of processors (--reduction exact)"
             : "sums over ranks are NCCL's (--reduction nccl)";
}

llvm::Expected<StepTargets> fsdp::createTargets(const PlanOptions &options) {
  if (options.targets.empty())
    return StepTargets();
  return createTargets(options.targets, {/*march=*/"native", /*tf32=*/false,
                                         /*tuning=*/"", /*math=*/std::nullopt});
}

llvm::Error StepSource::read() {
  auto created = createTargets(options);
  if (!created)
    return created.takeError();
  targets = std::move(*created);
  RemarkFilters unfused;
  unfused.missed = "fsdp-fuse-attention";
  frontend.logRemarks(unfused);
  if (llvm::Error error = frontend.read())
    return error;
  auto func =
      getTraced().lookupSymbol<FunctionOpInterface>(names::kForwardBackward);
  // The input's verifier, which runs first of all passes, says what is missing.
  if (!func)
    return llvm::Error::success();
  bool hasInteger = false;
  for (unsigned i = 0, e = func.getNumArguments(); i != e; ++i) {
    auto type = dyn_cast<RankedTensorType>(func.getArgumentTypes()[i]);
    if (!func.getArgAttr(i, names::kInput) || !type || type.getRank() == 0 ||
        !type.hasStaticShape())
      continue;
    if (items.perRank == 0)
      items.perRank = type.getDimSize(0);
    if (hasInteger || !type.getElementType().isInteger())
      continue;
    hasInteger = true;
    items.perRank = type.getNumElements();
    if (type.getRank() > 1)
      items.name = "tokens";
  }
  return llvm::Error::success();
}

llvm::Expected<LoweredStep> StepSource::lower(const StepOptions &given) {
  return lowerFor(targets, given);
}

llvm::Expected<LoweredStep> StepSource::lowerFor(const StepTargets &targets,
                                                 const StepOptions &given) {
  StepOptions settings = given;
  settings.kernels.setLimits(getKernelLimits(targets));
  // By name it is installed; a pass reads a file.
  if (!settings.schedule.cluster.empty()) {
    auto file = findCluster(settings.schedule.cluster, options.toolDir);
    if (!file)
      return file.takeError();
    settings.schedule.cluster = *file;
  }
  frontend.getRemarks().take();
  OwningOpRef<ModuleOp> module = getTraced().clone();
  if (llvm::Error error = frontend.partition(*module, settings))
    return error;
  if (llvm::Error error = frontend.makeKernels(*module, settings))
    return error;
  for (const Stage &stage : getKernelCodeStages(targets))
    if (llvm::Error error = frontend.runStage(*module, stage))
      return error;
  if (llvm::Error error =
          frontend.runPipeline(*module, "arena", [&](OpPassManager &pm) {
            addChooseReduction(pm, settings.schedule);
            pm.addNestedPass<ProgramOp>(createPlanArena());
          }))
    return error;
  Frontend::TimedPart timed(frontend, "program");
  LoweredStep step;
  ProgramOp train = getTrainProgram(*module);
  for (auto program : module->getOps<ProgramOp>()) {
    FailureOr<StepProgram> extracted = extractStepProgram(program);
    if (failed(extracted))
      return llvm::createStringError("could not plan " + settings.input);
    if (program == train)
      step.program = std::move(*extracted);
    else
      step.further.push_back({program.getSymName().str(),
                              stringifyProgramKind(program.getKind()).str(),
                              std::move(*extracted)});
  }
  if (auto strategy = (*module)->getAttrOfType<StringAttr>(names::kStrategy))
    step.strategy = strategy.str();
  step.wrap = settings.partition.wrap;
  if (!targets.empty())
    step.threadBytes = getThreadBytes(*module);
  step.notes = describeUnfused(frontend.getRemarks().take());
  auto reduction = (*module)->getAttrOfType<ReductionAttr>(names::kReduction);
  bool hasSums = !getStepSums(*module).transfers.empty();
  if (reduction && hasSums)
    step.notes.push_back(describeSums(reduction.getBy()).str());
  return step;
}

llvm::Expected<std::shared_ptr<const LoweredStep>>
StepSource::lowerQuietly(const StepOptions &settings) {
  // Who adds up over ranks depends on the cluster, too.
  auto [it, isNew] = lowered.try_emplace(
      settings.getKernelKey() + "\n" + std::string(settings.schedule.cluster));
  Outcome &outcome = it->second;
  if (isNew) {
    std::string said;
    ScopedDiagnosticHandler handler(
        getTraced().getContext(), [&](Diagnostic &diag) {
          if (said.empty() && diag.getSeverity() == DiagnosticSeverity::Error)
            said = diag.str();
          return success();
        });
    if (llvm::Expected<LoweredStep> step = lower(settings)) {
      outcome.step = std::make_shared<const LoweredStep>(std::move(*step));
    } else {
      outcome.error = llvm::toString(step.takeError());
      if (!said.empty())
        outcome.error = said;
    }
  }
  if (!outcome.step)
    return llvm::createStringError(outcome.error);
  return outcome.step;
}

llvm::Expected<LoweredSteps>
StepSource::lowerWraps(const StepOptions &settings) {
  std::vector<std::string> wraps = {settings.partition.wrap};
  if (settings.partition.wrap == kChosenWrap)
    wraps = getWraps(getTraced());
  LoweredSteps steps;
  std::string refused;
  for (const std::string &wrap : wraps) {
    StepOptions changed = settings;
    changed.partition.wrap = wrap;
    if (auto step = lowerQuietly(changed))
      steps.push_back(*step);
    else if (std::string why = llvm::toString(step.takeError());
             refused.empty())
      refused = why;
  }
  if (steps.empty())
    return llvm::createStringError(refused);
  return steps;
}

llvm::Expected<FSDPOptions> fsdp::parseFSDPOptions(StringRef text) {
  FSDPOptions options;
  bool allReduceStream = true;
  std::pair<StringRef, bool *> flags[] = {
      {"forward_prefetch", &options.forwardPrefetch},
      {"limit_all_gathers", &options.limitAllGathers},
      {"all_reduce_stream", &allReduceStream}};
  llvm::StringSet<> seen;
  for (StringRef part : llvm::split(text, ',')) {
    if (part.empty())
      continue;
    auto [name, value] = part.split('=');
    if (!seen.insert(name).second)
      return llvm::createStringError("expected each name once in --fsdp, got " +
                                     name + " twice");
    if (name == "backward_prefetch") {
      auto prefetch = parseWord<BackwardPrefetch>(value);
      if (!prefetch)
        return llvm::createStringError(
            "expected backward_prefetch=" + listWords<BackwardPrefetch>() +
            " in --fsdp, got '" + value + "'");
      options.backwardPrefetch = *prefetch;
      continue;
    }
    auto *flag = llvm::find_if(
        flags, [name = name](auto &it) { return it.first == name; });
    if (flag == std::end(flags) || (value != "true" && value != "false"))
      return llvm::createStringError(
          "expected --fsdp to hold forward_prefetch, limit_all_gathers or "
          "all_reduce_stream=true or false, or backward_prefetch=" +
          listWords<BackwardPrefetch>() + ", got '" + part + "'");
    *flag->second = value == "true";
  }
  options.allReduceOnReduceQueue = !allReduceStream;
  return options;
}

llvm::Error fsdp::readSettings(const PlanOptions &options,
                               PlanSettings &settings) {
  auto fsdpOptions = parseFSDPOptions(options.fsdp);
  if (!fsdpOptions)
    return fsdpOptions.takeError();
  settings.fsdp = *fsdpOptions;
  settings.rules = options.schedule.getRules();
  if (!options.memoryBudget.empty()) {
    auto bytes = parseBytes(options.memoryBudget);
    if (!bytes)
      return bytes.takeError();
    settings.budget = *bytes;
  }
  if (!options.computeDtype.empty()) {
    settings.computeDtype = parseCostDtype(options.computeDtype);
    if (!settings.computeDtype)
      return llvm::createStringError("expected --compute-dtype " +
                                     llvm::join(kCostDtypeNames, ", ") +
                                     ", got '" + options.computeDtype + "'");
  }
  return llvm::Error::success();
}

llvm::Expected<Cluster> fsdp::readCluster(const PlanOptions &options) {
  if (options.schedule.cluster.empty())
    return llvm::createStringError(
        "expected --cluster, a file (with .json) or a name, got "
        "none");
  auto file = findCluster(options.schedule.cluster, options.toolDir);
  if (!file)
    return file.takeError();
  auto cluster = loadCluster(*file);
  if (cluster)
    cluster->stepProfile = options.schedule.profile;
  return cluster;
}

/// What @step costs on @cluster where @factors hold.
static llvm::Expected<ClusterCost>
createScaledCost(const Cluster &cluster, const StepProgram &step,
                 const CostFactors &factors) {
  auto cost = createClusterCost(cluster, step);
  if (!cost)
    return cost.takeError();
  cost->model = std::make_unique<ScaledCost>(std::move(cost->model), factors);
  return cost;
}

llvm::Expected<PlanVariant> fsdp::simulateBest(const PlanReport &report,
                                               const Cluster &cluster,
                                               const CostFactors &factors) {
  const StepProgram &program = report.getBest().program;
  auto cost = createScaledCost(cluster, program, factors);
  if (!cost)
    return cost.takeError();
  return simulateVariant("planned", report.getBest().title, program,
                         *cost->model, cost->placements);
}

/// @program: of @step, or beside it.
static llvm::Expected<PlanReport>
planProgram(const StepProgram &program, const LoweredStep &step,
            const Cluster &cluster, const PlanOptions &options,
            const PlanSettings &settings, const CostFactors &factors) {
  auto cost = createScaledCost(cluster, program, factors);
  if (!cost)
    return cost.takeError();
  PlanReport report;
  report.mesh = options.partition.mesh;
  report.strategy = step.strategy;
  report.cluster = cluster.name;
  report.device = cluster.device.name;
  report.peakFlops = cluster.device.getPeakFlops();
  report.reserved = std::max(cluster.device.reservedBytes, step.threadBytes);
  report.budget =
      std::max<int64_t>(0, cluster.device.getUsableBytes() +
                               cluster.device.reservedBytes - report.reserved);
  report.hostBudget = cluster.host ? cluster.host->memoryBytes : 0;
  if (settings.budget && *settings.budget > cluster.device.memoryBytes)
    report.notes.push_back("the memory budget is above the " +
                           formatBytes(cluster.device.memoryBytes) +
                           " that the device has");
  if (!cost->tableDevice.empty())
    report.notes.push_back("kernels take times that were measured on " +
                           cost->tableDevice + " (" + cluster.deviceTable +
                           "), where it has them; the cluster file describes " +
                           cluster.device.name);
  if (!cluster.stepProfile.empty())
    report.notes.push_back(std::to_string(cost->profiledKernels) + " of " +
                           std::to_string(program.kernels.size()) +
                           " kernels take the times in " + cluster.stepProfile +
                           ", the others what the cluster file says");
  llvm::append_range(report.notes, step.notes);
  if (llvm::Error error = makePlan(program, std::move(cost->model),
                                   cost->placements, settings, report))
    return error;
  return report;
}

llvm::Expected<PlanReport> fsdp::planLowered(const LoweredStep &step,
                                             const Cluster &cluster,
                                             const PlanOptions &options,
                                             const PlanSettings &settings,
                                             const CostFactors &factors) {
  return planProgram(step.program, step, cluster, options, settings, factors);
}

llvm::Error fsdp::addFurtherPrograms(const LoweredStep &step,
                                     const Cluster &cluster,
                                     const PlanOptions &options,
                                     const PlanSettings &settings,
                                     PlanReport &report) {
  PlanSettings only = settings;
  only.onlyPlan = true;
  for (const LoweredProgram &it : step.further) {
    auto planned =
        planProgram(it.program, step, cluster, options, only, CostFactors());
    if (!planned)
      return planned.takeError();
    if (!planned->fits())
      report.notes.push_back(
          it.name + " does not fit: " + describeMisfit(*planned, it.name) +
          "; its plan is the one for --memory-budget " +
          formatBudget(planned->getBudgetFor(planned->leastBudget)));
    report.further.push_back({it.name, it.kind,
                              std::move(planned->variants.back()),
                              planned->leastBudget});
  }
  return llvm::Error::success();
}

bool fsdp::hasIdealKernels(const PlanOptions &options, const Cluster &cluster) {
  return cluster.device.multiprocessors.count > 0 && options.targets.empty() &&
         cluster.stepProfile.empty();
}

void fsdp::addCompiledStep(StepSource &source, const Cluster &cluster,
                           const PlanOptions &options,
                           const PlanSettings &settings,
                           const LoweredStep &step, PlanReport &report) {
  if (!hasIdealKernels(options, cluster))
    return;
  report.code.isIdeal = true;
  auto plan = [&]() -> llvm::Expected<PlanReport> {
    PlanOptions compiled = options;
    compiled.targets = "cuda";
    compiled.partition.wrap = step.wrap;
    auto targets = createTargets(compiled);
    if (!targets)
      return targets.takeError();
    auto lowered = source.lowerFor(*targets, compiled);
    if (!lowered)
      return lowered.takeError();
    PlanSettings only = settings;
    only.onlyPlan = true;
    return planLowered(*lowered, cluster, compiled, only);
  };
  auto planned = plan();
  if (!planned) {
    report.code.refused = llvm::toString(planned.takeError());
    return;
  }
  Time time = planned->getBest().timeline.step;
  report.code.compiledStep = time;
  noteSlowKernels(planned->kernels, time, "with --target cuda, ", report.notes);
}

llvm::Expected<FastestPlan> fsdp::planFastest(const LoweredSteps &steps,
                                              const Cluster &cluster,
                                              const PlanOptions &options,
                                              const PlanSettings &settings,
                                              const CostFactors &factors) {
  std::vector<WrapTrial> trials;
  std::vector<PlanReport> reports;
  for (const std::shared_ptr<const LoweredStep> &step : steps) {
    auto report = planLowered(*step, cluster, options, settings, factors);
    if (!report)
      return report.takeError();
    trials.push_back({step->wrap, report->fits(),
                      report->getBest().timeline.step,
                      report->getBudgetFor(report->leastBudget)});
    reports.push_back(std::move(*report));
  }
  size_t picked = pickWrap(trials);
  PlanReport &report = reports[picked];
  if (trials.size() > 1)
    report.decisions.insert(report.decisions.begin(),
                            describeTrials(ArrayRef(trials), picked));
  return FastestPlan{steps[picked], std::move(report)};
}
