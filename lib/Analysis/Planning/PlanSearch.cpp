//===- PlanSearch.cpp - The planner ---------------------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Analysis/Planning/PlanSearch.h"
#include "fsdp/Analysis/Planning/Recomputation.h"
#include "fsdp/Analysis/Schedule/LowerBound.h"
#include "fsdp/Analysis/Schedule/Scheduler.h"
#include "fsdp/Analysis/Schedule/StepProblem.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/FormatVariadic.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>

using namespace mlir::fsdp;
using namespace mlir::fsdp::sched;
using llvm::SmallVector;

llvm::Expected<PlanRules>
mlir::fsdp::sched::parsePlanRules(llvm::StringRef reshardAfterForward,
                                  llvm::StringRef recompute,
                                  llvm::StringRef bucket) {
  using Keep = PlanRules::Keep;
  using Recompute = PlanRules::Recompute;
  PlanRules rules;
  auto fail = [](const char *option, const char *expected,
                 llvm::StringRef got) {
    return llvm::createStringError(llvm::Twine("expected ") + option +
                                   " to be " + expected + ", got '" + got +
                                   "'");
  };
  auto keep = llvm::StringSwitch<std::optional<Keep>>(reshardAfterForward)
                  .Case("auto", Keep::Auto)
                  .Case("true", Keep::Never)
                  .Case("false", Keep::Always)
                  .Default(std::nullopt);
  if (!keep)
    return fail("reshard-after-forward", "auto, true or false",
                reshardAfterForward);
  rules.keep = *keep;
  auto repeat = llvm::StringSwitch<std::optional<Recompute>>(recompute)
                    .Case("auto", Recompute::Auto)
                    .Case("none", Recompute::Never)
                    .Case("full", Recompute::Full)
                    .Default(std::nullopt);
  if (!repeat)
    return fail("recompute", "auto, none or full", recompute);
  rules.recompute = *repeat;
  if (bucket != "auto" && bucket != "none")
    return fail("bucket", "auto or none", bucket);
  rules.group = bucket == "auto";
  return rules;
}

namespace {
class Search {
public:
  Search(const StepProgram &program, const CostModel &cost,
         llvm::ArrayRef<GroupPlacement> placements, int64_t budget,
         const PlanRules &rules)
      : program(program), cost(cost), placements(placements), budget(budget),
        rules(rules), times(addTimes(program, cost, placements)),
        choices(getPlanChoices(program)), recomputation(program, times) {}

  llvm::Error run();
  PlannedStep takeBest();

private:
  /// @plan with the least memory that it needs, and, if that is there, its
  /// time.
  llvm::Expected<PlannedStep> evaluate(StepPlan plan, bool wantsTime = true);
  llvm::Error offer(StepPlan plan);

  llvm::Error repeatToFit();
  llvm::Error keepWhatFits(const StepPlan &base);
  llvm::Error tradeForRoom();
  llvm::Error group();
  std::vector<Id> getKeepOrder() const;
  StepPlan getRepeating(int level) const;
  StepPlan getGrouped(const StepPlan &base, int64_t most, size_t alone) const;
  int64_t getBytes(Id gather) const;
  void explain();
  void summarize();

  const StepProgram &program;
  const CostModel &cost;
  llvm::ArrayRef<GroupPlacement> placements;
  int64_t budget;
  const PlanRules &rules;
  TimedProgram times;
  PlanChoices choices;
  Recomputation recomputation;
  PlannedStep best;
  /// The price level of what `best` repeats; 0: nothing is.
  int level = 0;
  /// Where the search ended for want of memory rather than of use.
  bool isShort = false;
};
} // namespace

/// Price levels: steps of a sixth of a doubling, from 10^-2 picoseconds for a
/// byte (a hundred times the speed of any memory) to 10^6 (a megabyte a
/// second).
constexpr int kMostLevel = 160;
static double getPrice(int level) { return 0.01 * std::exp2(level / 6.0); }

llvm::Expected<PlannedStep> Search::evaluate(StepPlan plan, bool wantsTime) {
  StepProgram changed = applyPlan(program, plan);
  auto step = getStepProblem(changed, addTimes(changed, cost, placements));
  if (!step)
    return step.takeError();
  step->problem.budget = budget;
  PlannedStep result;
  result.plan = std::move(plan);
  result.leastBytes = getLeastBudget(step->problem);
  if (!wantsTime || result.leastBytes > budget)
    return std::move(result);
  // Whatever its order, it would not be better.
  if (best.fits() &&
      lowerBound(step->problem).value + step->epilogueTime >= best.step)
    return std::move(result);
  if (std::optional<Schedule> found = schedule(step->problem))
    result.step = found->makespan + step->epilogueTime;
  return std::move(result);
}

/// Takes @plan if it is better: fits at all, is faster by more than rounding,
/// or, where nothing fits, needs less.
llvm::Error Search::offer(StepPlan plan) {
  llvm::Expected<PlannedStep> found = evaluate(std::move(plan));
  if (!found)
    return found.takeError();
  bool isBetter = best.fits()
                      ? found->step < best.step - best.step / 10000
                      : found->fits() || found->leastBytes < best.leastBytes;
  if (isBetter)
    best = std::move(*found);
  return llvm::Error::success();
}

//===----------------------------------------------------------------------===//
// Repeat
//===----------------------------------------------------------------------===//

/// The plan that repeats what pays at a price level, and what the rules ask.
StepPlan Search::getRepeating(int level) const {
  StepPlan plan(program);
  if (rules.recompute == PlanRules::Recompute::Full)
    level = kMostLevel;
  if (level > 0)
    plan.recompute = recomputation.choose(getPrice(level));
  if (rules.keep == PlanRules::Keep::Always)
    for (size_t i = 0; i != program.ops.size(); ++i)
      plan.keep[i] = choices.earlierGather[i] >= 0;
  return plan;
}

llvm::Error Search::repeatToFit() {
  // Up to `low` it does not fit.
  int low = 0, high = kMostLevel + 1;
  while (high - low > 1) {
    int middle = (low + high) / 2;
    auto found = evaluate(getRepeating(middle), /*wantsTime=*/false);
    if (!found)
      return found.takeError();
    (found->leastBytes <= budget ? high : low) = middle;
  }
  level = std::min(high, kMostLevel);
  return offer(getRepeating(level));
}

//===----------------------------------------------------------------------===//
// Keep
//===----------------------------------------------------------------------===//

int64_t Search::getBytes(Id gather) const {
  int64_t bytes = 0;
  for (const ByteRange &range : program.ops[gather].writes)
    bytes += program.buffers[program.values[range.value].buffer].bytes;
  return bytes;
}

/// Gathers that could be kept: most time for a byte first; of equal ones that
/// which is kept for the shortest time.
std::vector<Id> Search::getKeepOrder() const {
  std::vector<Id> gathers;
  for (size_t i = 0; i != program.ops.size(); ++i)
    if (choices.earlierGather[i] >= 0)
      gathers.push_back(i);
  auto rate = [&](Id gather) {
    return double(times.ops[gather].cost.total()) /
           double(std::max<int64_t>(getBytes(gather), 1));
  };
  llvm::sort(gathers, [&](Id a, Id b) {
    return std::make_pair(-rate(a), a) < std::make_pair(-rate(b), b);
  });
  return gathers;
}

llvm::Error Search::keepWhatFits(const StepPlan &base) {
  std::vector<Id> gathers = getKeepOrder();
  auto getKeeping = [&](size_t count) {
    StepPlan plan = base;
    for (size_t i = 0; i != count; ++i)
      plan.keep[gathers[i]] = true;
    return plan;
  };
  // As many as fit: up to `low` they do.
  size_t low = 0, high = gathers.size() + 1;
  while (high - low > 1) {
    size_t middle = low + (high - low + 1) / 2;
    if (low == 0 && high == gathers.size() + 1)
      middle = gathers.size(); // often all of them
    auto found = evaluate(getKeeping(middle), /*wantsTime=*/false);
    if (!found)
      return found.takeError();
    (found->leastBytes <= budget ? low : high) = middle;
  }
  isShort |= low < gathers.size();
  // Memory that is kept is missing for prefetches: fewer may be better.
  for (size_t count : {low, low / 2})
    if (count > 0)
      if (llvm::Error error = offer(getKeeping(count)))
        return error;
  return llvm::Error::success();
}

/// Repeats more than it must, and keeps what that makes room for.
llvm::Error Search::tradeForRoom() {
  for (int more : {6, 18}) {
    if (level + more > kMostLevel)
      break;
    StepPlan base = getRepeating(level ? level + more : 36 + more);
    if (!llvm::is_contained(base.recompute, true))
      continue;
    if (llvm::Error error = keepWhatFits(base))
      return error;
  }
  return llvm::Error::success();
}

//===----------------------------------------------------------------------===//
// Group
//===----------------------------------------------------------------------===//

/// @base with neighbouring transfers of one kind, group and phase together, up
/// to @most bytes. The first @alone and the last of a kind and phase stay
/// alone: compute waits for them.
StepPlan Search::getGrouped(const StepPlan &base, int64_t most,
                            size_t alone) const {
  StepPlan plan = base;
  std::map<std::tuple<int, Id, bool>, SmallVector<Id>> rows;
  for (auto [i, op] : llvm::enumerate(program.ops))
    if (op.kind == StepOpKind::Start && !plan.keep[i]) {
      const StepTransfer &transfer = program.transfers[op.transfer];
      rows[{int(transfer.kind), transfer.group, op.backward}].push_back(i);
    }
  Id number = 0;
  for (auto &[key, row] : rows) {
    int64_t bytes = 0;
    for (size_t i = alone; i + 1 < row.size(); ++i) {
      int64_t mine = 0;
      for (int64_t atom :
           program.transfers[program.ops[row[i]].transfer].atomBytes)
        mine += atom;
      if (bytes && bytes + mine > most) {
        bytes = 0;
        ++number;
      }
      bytes += mine;
      plan.group[row[i]] = number;
    }
    ++number;
  }
  return plan;
}

/// What is tried: bytes of a bucket, and how many transfers stay alone first.
static constexpr std::pair<int64_t, size_t> kBuckets[] = {
    {int64_t(4) << 20, 1},   {int64_t(32) << 20, 1}, {int64_t(256) << 20, 1},
    {int64_t(256) << 20, 2}, {int64_t(1) << 30, 2},  {int64_t(2) << 30, 3}};

llvm::Error Search::group() {
  // Bytes take as long together as alone.
  Time latency = 0;
  for (size_t i = 0; i != program.ops.size(); ++i)
    if (program.ops[i].kind == StepOpKind::Start)
      latency += times.ops[i].cost.latency;
  if (latency < best.step / 1000)
    return llvm::Error::success();
  StepPlan base = best.plan;
  std::vector<Id> last = base.group;
  for (auto [most, alone] : kBuckets) {
    StepPlan plan = getGrouped(base, most, alone);
    // Numbers with one member mean nothing.
    llvm::DenseMap<Id, int> members;
    for (Id number : plan.group)
      if (number >= 0)
        ++members[number];
    for (Id &number : plan.group)
      if (number >= 0 && members[number] == 1)
        number = -1;
    if (plan.group == last)
      continue;
    last = plan.group;
    if (llvm::Error error = offer(std::move(plan)))
      return error;
  }
  return llvm::Error::success();
}

//===----------------------------------------------------------------------===//
// In words
//===----------------------------------------------------------------------===//

static std::string inMebibytes(int64_t bytes) {
  return llvm::formatv("{0:f1} MiB", double(bytes) / (1 << 20));
}
static std::string inMilliseconds(Time time) {
  return llvm::formatv("{0:f3} ms", double(time) / 1e9);
}

void Search::explain() {
  llvm::DenseMap<Id, int> members;
  for (Id number : best.plan.group)
    if (number >= 0)
      ++members[number];
  for (auto [i, op] : llvm::enumerate(program.ops)) {
    auto add = [&, i = i](PlanDecision::Kind kind, bool taken,
                          std::string why) {
      best.decisions.push_back({kind, Id(i), taken, std::move(why)});
    };
    if (choices.earlierGather[i] >= 0) {
      std::string price = llvm::formatv(
          "{0} from forward to backward save a transfer of {1}",
          inMebibytes(getBytes(i)), inMilliseconds(times.ops[i].cost.total()));
      bool taken = best.plan.keep[i];
      add(PlanDecision::Keep, taken,
          taken ? price
          : rules.keep != PlanRules::Keep::Auto
              ? price + "; reshard_after_forward is true"
          : isShort || !best.fits()
              ? price + "; the budget holds no more of them"
              : price + "; the step would not be faster");
    }
    int64_t bytes = 0;
    for (const ByteRange &range : op.writes)
      if (best.plan.recompute[range.value])
        bytes += range.bytes;
    if (bytes)
      add(PlanDecision::Recompute, true,
          llvm::formatv("{0} less are kept for backward, for {1} of compute",
                        inMebibytes(bytes), inMilliseconds(times.ops[i].work)));
    if (best.plan.group[i] >= 0)
      add(PlanDecision::Group, true,
          llvm::formatv("issued with {0} others: one latency of {1}",
                        members[best.plan.group[i]] - 1,
                        inMilliseconds(times.ops[i].cost.latency)));
  }
}

void Search::summarize() {
  int kept = 0, units = 0, repeated = 0, grouped = 0;
  int64_t keptBytes = 0, savedBytes = 0;
  Time saved = 0, spent = 0;
  std::set<Id> groups;
  for (auto [i, op] : llvm::enumerate(program.ops)) {
    units += choices.earlierGather[i] >= 0;
    if (best.plan.keep[i]) {
      ++kept;
      keptBytes += getBytes(i);
      saved += times.ops[i].cost.total();
    }
    bool isRepeated = false;
    for (const ByteRange &range : op.writes)
      if (best.plan.recompute[range.value]) {
        isRepeated = true;
        savedBytes += range.bytes;
      }
    repeated += isRepeated;
    spent += isRepeated ? times.ops[i].work : 0;
    if (best.plan.group[i] >= 0) {
      ++grouped;
      groups.insert(best.plan.group[i]);
    }
  }
  if (kept)
    best.summary.push_back(llvm::formatv(
        "{0} of {1} units stay gathered from forward to backward: {2}, and {3} "
        "of transfers less",
        kept, units, inMebibytes(keptBytes), inMilliseconds(saved)));
  if (repeated)
    best.summary.push_back(llvm::formatv(
        "{0} kernels of forward run again in backward: {1} of activations "
        "less, and {2} of compute more",
        repeated, inMebibytes(savedBytes), inMilliseconds(spent)));
  if (grouped)
    best.summary.push_back(llvm::formatv(
        "{0} transfers are issued in {1} groups", grouped, groups.size()));
}

llvm::Error Search::run() {
  llvm::Expected<PlannedStep> plain = evaluate(getRepeating(0));
  if (!plain)
    return plain.takeError();
  best = std::move(*plain);
  bool mayRepeat = rules.recompute == PlanRules::Recompute::Auto;
  if (!best.fits() && mayRepeat)
    if (llvm::Error error = repeatToFit())
      return error;
  if (best.fits() && rules.keep == PlanRules::Keep::Auto) {
    if (llvm::Error error = keepWhatFits(best.plan))
      return error;
    if (isShort && mayRepeat)
      if (llvm::Error error = tradeForRoom())
        return error;
  }
  if (best.fits() && rules.group)
    if (llvm::Error error = group())
      return error;
  explain();
  summarize();
  return llvm::Error::success();
}

PlannedStep Search::takeBest() { return std::move(best); }

llvm::Expected<PlannedStep>
mlir::fsdp::sched::planStep(const StepProgram &program, const CostModel &cost,
                            llvm::ArrayRef<GroupPlacement> placements,
                            int64_t budget, const PlanRules &rules) {
  Search search(program, cost, placements, budget, rules);
  if (llvm::Error error = search.run())
    return std::move(error);
  return search.takeBest();
}
