//===- WhatIf.cpp - What would make a step faster -------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Each candidate is planned in full: lowered where an option changes it,
// scheduled and simulated. None is chosen by the model's name, only by what
// the step and its plan hold.
//
//===----------------------------------------------------------------------===//

#include "StepSource.h"
#include "fsdp/Analysis/Contract/InputContract.h"
#include "fsdp/Analysis/Step/Strategy.h"
#include "fsdp/Driver/WrapChoice.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/ThreadPool.h"

#include <set>

using namespace mlir;
using namespace mlir::fsdp;
using namespace mlir::fsdp::sched;

namespace {
struct Candidate {
  std::string title;
  bool isOption = false, hasAllMemory = false;
  /// The step is lowered in another way, or computes something else: the plan
  /// that there is cannot be taken.
  bool isOtherStep = false;
  bool isLoweredAgain() const { return isOption && isOtherStep; }
  PlanOptions options;
  PlanSettings settings;
  CostFactors factors;
  /// This link is twice as fast; those to and from the host are one.
  std::optional<Link> fasterLink;
};

/// What the traced step says of its parameters.
struct ParamFacts {
  bool hasWide = false;
  /// Bytes by the class of the module that holds them, for parameters of the
  /// root unit.
  llvm::MapVector<StringRef, int64_t> rootBytes;
  /// Classes of modules inside of units other than the root, and of those
  /// units themselves.
  llvm::SetVector<StringRef> inner, units;
  /// Other wraps that make other units.
  std::vector<std::string> wraps;
};
} // namespace

static bool isInside(StringRef name, StringRef module) {
  return name == module || (name.starts_with(module) &&
                            name.drop_front(module.size()).starts_with("."));
}

static ParamFacts getParamFacts(ModuleOp traced, const StepProgram &program,
                                StringRef wrap) {
  ParamFacts facts;
  facts.wraps = getWraps(traced, wrap);
  FailureOr<TracedStep> step = readTracedStep(traced);
  if (failed(step))
    return facts;
  llvm::StringMap<StringRef> classes;
  std::vector<StringRef> units;
  for (const std::string &unit : program.units)
    if (!unit.empty() && unit != "root")
      units.push_back(unit);
  auto isInUnit = [&](StringRef name) {
    return llvm::any_of(units,
                        [&](StringRef unit) { return isInside(name, unit); });
  };
  for (const ModuleInfo &module : step->modules) {
    classes[module.fqn] = module.className;
    if (llvm::is_contained(units, module.fqn))
      facts.units.insert(module.className);
    else if (isInUnit(module.fqn))
      facts.inner.insert(module.className);
  }
  for (const ParamInfo &param : step->params) {
    RankedTensorType type = param.getType();
    if (type.getElementTypeBitWidth() > 16)
      facts.hasWide = true;
    StringRef owner = param.fqn.getValue().rsplit('.').first;
    // Of several names, all modules that hold it are gathered with the root.
    if ((!param.tied || param.tied.empty()) && !isInUnit(owner))
      facts.rootBytes[classes.lookup(owner)] +=
          type.getNumElements() * type.getElementTypeBitWidth() / 8;
  }
  return facts;
}

/// Wraps of their own for those parts of the root that no unit holds a module
/// of: an embedding beside blocks.
static std::optional<std::string> getFinerWrap(const ParamFacts &facts) {
  if (facts.units.empty() || facts.units.contains(""))
    return std::nullopt;
  StringRef most;
  int64_t bytes = 0;
  for (auto [name, size] : facts.rootBytes)
    if (!name.empty() && !facts.inner.contains(name) &&
        !facts.units.contains(name) && size > bytes) {
      most = name;
      bytes = size;
    }
  if (most.empty())
    return std::nullopt;
  return "module:" + llvm::join(facts.units, ",") + "," + most.str();
}

namespace {
/// Collects candidates.
class Candidates {
public:
  Candidates(const Cluster &cluster, const PlanOptions &options,
             const PlanSettings &settings, const ModelBudgets &fitted)
      : cluster(cluster) {
    base.options = options;
    base.settings = settings;
    base.settings.onlyBest = true;
    base.settings.likely = fitted;
  }

  void addMachines(const LoweredStep &step, const PlanReport &report);
  void addOptions(const LoweredStep &step, const PlanReport &report,
                  const ParamFacts &facts);

  std::vector<Candidate> all;

private:
  CostFactors &addFactors(const llvm::Twine &title) {
    all.push_back(base);
    all.back().title = title.str();
    return all.back().factors;
  }
  void addLink(const llvm::Twine &title, Link link) {
    addFactors(title);
    all.back().fasterLink = link;
  }
  PlanOptions &addOption(const llvm::Twine &title) {
    all.push_back(base);
    all.back().title = title.str();
    all.back().isOption = all.back().isOtherStep = true;
    all.back().settings.likely = {};
    return all.back().options;
  }
  /// @value of @option, a member of the options of schedules.
  template <typename Option, typename Enum>
  void addWord(Option option, Enum value) {
    auto &changed = addOption("").schedule.*option;
    changed = value;
    all.back().title = ("--" + changed.ArgStr + " " + getWord(value)).str();
  }
  void addMemory(const PlanReport &report);
  void addStrategies(const LoweredStep &step);
  void addMeshes(int64_t world, int64_t now);

  const Cluster &cluster;
  Candidate base;
};
} // namespace

void Candidates::addMachines(const LoweredStep &step,
                             const PlanReport &report) {
  constexpr std::pair<Link, llvm::StringLiteral> kLinks[] = {
      {Link::Inter, "links between nodes twice as fast"},
      {Link::Intra, "links inside a node twice as fast"}};
  const PlanVariant &best = report.getBest();
  std::array<bool, kNumLinks> used = {};
  bool copies = false;
  for (const StepTransfer &transfer : best.program.transfers) {
    copies |= transfer.isCopy();
    if (transfer.isCopy())
      continue;
    const RankGroup &group = step.program.groups[transfer.group];
    auto place =
        placeGroup(cluster, step.program.worldSize, group.size, group.stride);
    if (!place) {
      llvm::consumeError(place.takeError());
      continue;
    }
    // A ring through several nodes crosses both kinds: either may limit it.
    used[unsigned(Link::Inter)] |= place->nodes > 1;
    used[unsigned(Link::Intra)] |= place->ranksPerNode > 1;
  }
  for (auto [link, title] : kLinks)
    if (used[unsigned(link)])
      addLink(title, link);
  if (copies)
    addLink("links to the host twice as fast", Link::DeviceToHost);
  Time slowed = 0;
  for (Time time : best.timeline.slowedBy)
    slowed += time;
  if (slowed > 0)
    addFactors("transfers that take nothing from compute").freeCompute = true;
  std::array<Time, 4> kinds = getTimeByKind(report);
  if (kinds[0] > 0)
    addFactors("products and attention twice as fast").products = 2;
  if (kinds[1] + kinds[2] > 0)
    addFactors("elementwise kernels, reductions and copies twice as fast")
        .otherKernels = 2;
  if (kinds[3] > 0)
    addFactors("kernels that start without overhead").noLaunch = true;
}

void Candidates::addStrategies(const LoweredStep &step) {
  auto mesh = MeshShape::parse(base.options.partition.mesh);
  if (!mesh) {
    llvm::consumeError(mesh.takeError());
    return;
  }
  // With reshard_after_forward left to it, the planner keeps what pays.
  if (base.settings.rules.keep == PlanRules::Keep::Never)
    addWord(&OptimizeOptions::reshardAfterForward, PlanRules::Keep::Auto);
  if (base.settings.rules.recompute != PlanRules::Recompute::Auto)
    addWord(&OptimizeOptions::recompute, PlanRules::Recompute::Auto);
  if (base.settings.rules.offload != PlanRules::Offload::Auto && cluster.host)
    addWord(&OptimizeOptions::offload, PlanRules::Offload::Auto);
  if (step.strategy == getWord(Strategy::FullShard))
    addMeshes(mesh->getWorldSize(), mesh->getWorldSize());
  else if (step.strategy == getWord(Strategy::HybridShard))
    addMeshes(mesh->getWorldSize(), mesh->shard);
}

/// All @world ranks, sharded over all, over those of a node, over one, and over
/// twice and half as many as they are @now.
void Candidates::addMeshes(int64_t world, int64_t now) {
  std::set<int64_t> sizes = {1, cluster.gpusPerNode, world, 2 * now};
  if (now % 2 == 0)
    sizes.insert(now / 2);
  bool isAsked = base.options.partition.strategy != Strategy::Auto;
  for (int64_t size : sizes) {
    if (size == now || world % size)
      continue;
    std::string shape = "shard=" + std::to_string(size);
    if (size != world)
      shape += ",replicate=" + std::to_string(world / size);
    std::string title = "--mesh " + shape;
    if (isAsked)
      title += (" --strategy " + getWord(Strategy::Auto)).str();
    PlanOptions &options = addOption(title);
    options.partition.mesh = shape;
    options.partition.strategy = Strategy::Auto;
  }
}

/// Whether the step would be faster, or possible at all, with more memory.
static bool isShortOfMemory(const PlanReport &report) {
  return !report.fits() ||
         llvm::any_of(report.getBest().program.ops, [](const StepOp &op) {
           return op.heldBy == Cause::Memory;
         });
}

/// Whether the device holds states of an optimizer with an element per element
/// of a parameter: more than numbers.
static bool hasOptimizerStates(const sched::StepProgram &program) {
  constexpr int64_t kNumber = 8;
  return llvm::any_of(program.buffers, [&](const sched::StepBuffer &buffer) {
    return buffer.purpose == Purpose::Optimizer && !buffer.isHost &&
           buffer.bytes > kNumber;
  });
}

/// What memory costs: where a budget below the device's was asked for, this is
/// an option; else another machine.
void Candidates::addMemory(const PlanReport &report) {
  std::optional<int64_t> budget = base.settings.budget;
  if (!budget && !isShortOfMemory(report))
    return;
  bool isBelow = budget && *budget < cluster.device.getUsableBytes() +
                                         cluster.device.reservedBytes;
  addFactors(isBelow ? "no --memory-budget: all that the device has"
                     : "a device with more memory than any order can use");
  Candidate &candidate = all.back();
  candidate.settings.budget = kNoBudget;
  if (isBelow)
    candidate.settings.budget.reset();
  candidate.settings.likely = {};
  candidate.isOption = isBelow;
  candidate.hasAllMemory = true;
}

void Candidates::addOptions(const LoweredStep &step, const PlanReport &report,
                            const ParamFacts &facts) {
  addMemory(report);
  // Of kernels that no run has measured, times would be another's.
  if (!base.options.schedule.profile.empty())
    return;
  bool communicates =
      llvm::any_of(step.program.groups,
                   [](const RankGroup &group) { return group.size > 1; });
  const PlanOptions &given = base.options;
  if (isShortOfMemory(report) && cluster.host &&
      hasOptimizerStates(step.program))
    addOption("--offload-optimizer").kernels.offloadOptimizer = true;
  if (communicates) {
    if (facts.hasWide && given.partition.paramDtype.empty() &&
        given.partition.reduceDtype.empty() &&
        given.partition.reductionHook.empty()) {
      PlanOptions &options =
          addOption("--param-dtype bf16 --reduce-dtype bf16");
      options.partition.paramDtype = options.partition.reduceDtype = "bf16";
    }
    if (std::optional<std::string> wrap = getFinerWrap(facts))
      addOption("--wrap " + *wrap).partition.wrap = *wrap;
    for (const std::string &wrap : facts.wraps)
      addOption("--wrap " + wrap).partition.wrap = wrap;
    addStrategies(step);
  }
  bool hasWideProducts =
      llvm::any_of(report.kernels, [](const KernelShare &kernel) {
        return kernel.cost.kind == KernelKind::Matmul &&
               kernel.cost.dtype == CostDtype::F32;
      });
  if (hasWideProducts && !base.settings.computeDtype) {
    addFactors("products in bf16, where they were traced in f32");
    all.back().settings.computeDtype = CostDtype::BF16;
    all.back().isOtherStep = true;
  }
}

/// Fills @result with what becomes of @candidate beside @now.
static llvm::Error planCandidate(const Candidate &candidate,
                                 const Cluster &given, const PlanReport &now,
                                 const LoweredSteps &steps, WhatIf &result) {
  PlanSettings settings = candidate.settings;
  // Options that are read again: no candidate has a wrong one.
  if (candidate.isLoweredAgain())
    llvm::cantFail(readSettings(candidate.options, settings));
  Cluster cluster = candidate.fasterLink
                        ? makeLinkFaster(given, *candidate.fasterLink, 2)
                        : given;
  auto planWithin = [&](std::optional<int64_t> budget) {
    settings.budget = budget;
    return planFastest(steps, cluster, candidate.options, settings,
                       candidate.factors);
  };
  // What a step needs depends on the step alone, not on machines.
  bool needsTheSame =
      !now.fits() && !candidate.isLoweredAgain() && !candidate.hasAllMemory;
  int64_t budgetOfNow = now.getBudgetFor(now.getPlannedBudget());
  auto planned = planWithin(needsTheSame ? budgetOfNow : settings.budget);
  if (!planned)
    return planned.takeError();
  result.budget = needsTheSame ? now.budget : planned->report.budget;
  result.leastBudget =
      needsTheSame ? now.leastBudget : planned->report.leastBudget;
  // With what it needs itself it might look worse than it is.
  if (!now.fits() && !needsTheSame && !result.fits() &&
      result.leastBudget <= now.getPlannedBudget()) {
    planned = planWithin(budgetOfNow);
    if (!planned)
      return planned.takeError();
  }
  PlanVariant best = planned->report.getBest();
  // Plans are searched for: what helps may lead to one that is slower than the
  // one that there is.
  if (!candidate.isOtherStep && (now.fits() || !result.fits())) {
    PlanVariant same =
        llvm::cantFail(simulateBest(now, cluster, candidate.factors));
    if (same.timeline.step < best.timeline.step) {
      best = std::move(same);
      result.leastBudget = now.leastBudget;
    }
  }
  result.step = best.timeline.step;
  result.compute = best.timeline.compute;
  result.exposed = best.timeline.exposed;
  result.peak = getMemoryPeak(best.memory).getTotal();
  return llvm::Error::success();
}

static WhatIf ask(const Candidate &candidate, const Cluster &cluster,
                  const PlanReport &now, llvm::Expected<LoweredSteps> steps) {
  WhatIf result;
  result.title = candidate.title;
  result.isOption = candidate.isOption;
  result.hasAllMemory = candidate.hasAllMemory;
  llvm::Error error =
      steps ? planCandidate(candidate, cluster, now, *steps, result)
            : steps.takeError();
  if (error)
    result.refused = llvm::toString(std::move(error));
  return result;
}

void fsdp::addWhatIfs(StepSource &source, const Cluster &cluster,
                      const PlanOptions &options, const PlanSettings &settings,
                      std::shared_ptr<const LoweredStep> step,
                      PlanReport &report) {
  Frontend::TimedPart timed(source.getFrontend(), "what would help");
  Candidates candidates(cluster, options, settings, report.fitted);
  candidates.addMachines(*step, report);
  candidates.addOptions(
      *step, report,
      getParamFacts(source.getTraced(), step->program, step->wrap));
  report.whatIfs.resize(candidates.all.size());
  {
    // IR belongs to this thread; plans of lowered steps run beside it.
    llvm::DefaultThreadPool pool;
    for (size_t i = 0; i != candidates.all.size(); ++i) {
      const Candidate &candidate = candidates.all[i];
      // An option may lead to other units, another machine has those that were
      // taken here.
      auto steps =
          candidate.isLoweredAgain() ||
                  (candidate.isOption && options.partition.wrap == kChosenWrap)
              ? source.lowerWraps(candidate.options)
              : LoweredSteps{step};
      if (!steps) {
        report.whatIfs[i] = ask(candidate, cluster, report, std::move(steps));
        continue;
      }
      pool.async([&, i, lowered = *steps] {
        report.whatIfs[i] = ask(candidate, cluster, report, lowered);
      });
    }
    pool.wait();
  }
  auto rank = [&](const WhatIf &it) {
    return std::make_tuple(!it.refused.empty(), !report.hasTimeOf(it), it.step,
                           it.title);
  };
  llvm::sort(report.whatIfs, [&](const WhatIf &a, const WhatIf &b) {
    return rank(a) < rank(b);
  });
}
