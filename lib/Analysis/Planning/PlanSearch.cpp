//===- PlanSearch.cpp - The planner ---------------------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Analysis/Planning/PlanSearch.h"
#include "PlanWords.h"
#include "fsdp/Analysis/Planning/Offloading.h"
#include "fsdp/Analysis/Planning/Recomputation.h"
#include "fsdp/Analysis/Schedule/LowerBound.h"
#include "fsdp/Analysis/Schedule/Scheduler.h"
#include "fsdp/Analysis/Schedule/StepProblem.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SetVector.h"
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

llvm::Expected<PlanRules> mlir::fsdp::sched::parsePlanRules(
    llvm::StringRef reshardAfterForward, llvm::StringRef recompute,
    llvm::StringRef offload, llvm::StringRef bucket) {
  using Keep = PlanRules::Keep;
  using Recompute = PlanRules::Recompute;
  using Offload = PlanRules::Offload;
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
  auto host = llvm::StringSwitch<std::optional<Offload>>(offload)
                  .Case("auto", Offload::Auto)
                  .Case("none", Offload::Never)
                  .Case("full", Offload::Full)
                  .Default(std::nullopt);
  if (!host)
    return fail("offload", "auto, none or full", offload);
  rules.offload = *host;
  if (bucket != "auto" && bucket != "none")
    return fail("bucket", "auto or none", bucket);
  rules.group = bucket == "auto";
  return rules;
}

/// How many ways to repeat and offload are tried to the end.
static constexpr size_t kWaysToFill = 1, kWaysToGroup = 2;

namespace {
class Search {
public:
  Search(const StepProgram &program, const CostModel &cost,
         llvm::ArrayRef<GroupPlacement> placements, const MemoryLimits &limits,
         const PlanRules &rules, const StepPlan &given, PlanNeeds &needs)
      : program(program), cost(cost), placements(placements),
        budget(limits.device), hostBudget(limits.host), rules(rules),
        given(given), needs(needs), times(addTimes(program, cost, placements)),
        choices(getPlanChoices(program)),
        recomputation(program, times, choices),
        offers(getOffloadOffers(program, times, choices,
                                recomputation.getStretchOfOps(), cost,
                                limits.host > 0)) {}

  llvm::Error run();
  PlannedStep takeBest();

private:
  llvm::Expected<StepProblem> getProblem(const StepPlan &plan) const;
  llvm::Expected<int64_t> getLeastBytes(const StepPlan &plan) const;
  /// @plan with the least memory that it needs and, if that is there, its time,
  /// where that may be less than @limit.
  llvm::Expected<PlannedStep> evaluate(StepPlan plan, Time limit) const;
  llvm::Error offer(StepPlan plan);
  llvm::Expected<bool> offerBase(const StepPlan &base);
  std::vector<std::pair<Time, int>> rankWays(bool offloads) const;
  SmallVector<StepPlan> getFinalists(size_t most) const;
  Time getFinalTime(bool offloads) const;

  llvm::Error repeatToFit();
  llvm::Error offloadToFit();
  llvm::Error fitAnyhow();
  llvm::Error offerReturning(StepPlan base, int64_t leastBytes);
  llvm::Error keepWhatFits(StepPlan base);
  llvm::Error tradeForRoom();
  llvm::Error offloadForRoom();
  StepPlan getBuckets(const StepPlan &base, int64_t most, size_t alone) const;
  llvm::Error groupInsteadOfKeeping(const StepPlan &base, int64_t most,
                                    size_t alone);
  llvm::Error group(const StepPlan &base);
  std::vector<Id> getKeepOrder() const;
  StepPlan getRepeating(int level) const;
  StepPlan getOffloading(double linkPrice, int level, int eighths) const;
  int getLevel(double linkPrice) const;
  StepPlan withAllOffloaded(StepPlan plan) const;
  StepPlan complete(StepPlan plan) const;
  void offloadAll(StepPlan &plan, const std::vector<bool> &isRead) const;
  bool fitsHost(const StepPlan &plan) const;
  bool mayOffload() const {
    return rules.offload == PlanRules::Offload::Auto && hostBudget > 0;
  }
  StepPlan getGrouped(const StepPlan &base, int64_t most, size_t alone) const;

  const StepProgram &program;
  const CostModel &cost;
  llvm::ArrayRef<GroupPlacement> placements;
  int64_t budget, hostBudget;
  const PlanRules &rules;
  const StepPlan &given;
  PlanNeeds &needs;
  TimedProgram times;
  PlanChoices choices;
  Recomputation recomputation;
  OffloadOffers offers;
  PlannedStep best;
  /// By the way to repeat and offload that is offered now, and by whether
  /// anything is offloaded: the best plan.
  std::map<std::pair<bool, int>, PlannedStep> finalists;
  int way = 0;
  /// What buckets gain at most; 0: nothing may be grouped.
  Time bucketsGain = 0;
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

llvm::Expected<StepProblem> Search::getProblem(const StepPlan &plan) const {
  StepProgram changed = applyPlan(program, plan);
  auto step = getStepProblem(changed, addTimes(changed, cost, placements));
  if (step)
    step->problem.budget = budget;
  return step;
}

llvm::Expected<int64_t> Search::getLeastBytes(const StepPlan &plan) const {
  if (std::optional<int64_t> known = needs.find(plan))
    return *known;
  auto step = getProblem(plan);
  if (!step)
    return step.takeError();
  int64_t bytes = getLeastBudget(step->problem);
  needs.note(plan, bytes);
  return bytes;
}

llvm::Expected<PlannedStep> Search::evaluate(StepPlan plan, Time limit) const {
  PlannedStep result;
  std::optional<int64_t> known = needs.find(plan);
  if (known && *known > budget) {
    result.plan = std::move(plan);
    result.leastBytes = *known;
    return std::move(result);
  }
  auto step = getProblem(plan);
  if (!step)
    return step.takeError();
  result.leastBytes = known ? *known : getLeastBudget(step->problem);
  needs.note(plan, result.leastBytes);
  result.plan = std::move(plan);
  if (result.leastBytes > budget)
    return std::move(result);
  Time bound = lowerBound(step->problem).value;
  // Whatever its order, it would not be better.
  Time below =
      limit == PlannedStep::kNever ? limit : limit - step->epilogueTime;
  if (bound >= below)
    return std::move(result);
  if (std::optional<Time> time = getScheduledTime(step->problem, bound, below))
    result.step = *time + step->epilogueTime;
  return std::move(result);
}

/// Ways that fit, fastest first; of equally fast ones the earlier.
std::vector<std::pair<Time, int>> Search::rankWays(bool offloads) const {
  std::vector<std::pair<Time, int>> ranks;
  for (const auto &[key, found] : finalists)
    if (key.first == offloads && found.fits())
      ranks.push_back({found.step, key.second});
  llvm::sort(ranks);
  return ranks;
}

/// The best @most ways without offloading and the best @most with it: which is
/// the best is not known before all are filled with gathered parameters and
/// grouped.
SmallVector<StepPlan> Search::getFinalists(size_t most) const {
  SmallVector<StepPlan> result;
  for (bool offloads : {false, true}) {
    std::vector<std::pair<Time, int>> ranks = rankWays(offloads);
    for (auto [step, number] : llvm::ArrayRef(ranks).take_front(most))
      if (step - best.step <= bucketsGain)
        result.push_back(finalists.at({offloads, number}).plan);
  }
  return result;
}

/// What a plan of this way must take less than to be grouped in the end.
Time Search::getFinalTime(bool offloads) const {
  std::vector<std::pair<Time, int>> others = rankWays(offloads);
  llvm::erase_if(others, [&](auto &rank) { return rank.second == way; });
  return others.size() < kWaysToGroup ? PlannedStep::kNever
                                      : others[kWaysToGroup - 1].first;
}

/// Takes @plan if it is better: fits at all, is faster by more than rounding,
/// or, where nothing fits, needs less.
llvm::Error Search::offer(StepPlan plan) {
  bool offloads = llvm::is_contained(plan.offload, true);
  PlannedStep &rival = finalists[{offloads, way}];
  // Neither the best of its way nor better than those that go on.
  Time limit = std::min(rival.step, getFinalTime(offloads));
  if (best.fits())
    limit = std::min(limit, best.step + bucketsGain);
  llvm::Expected<PlannedStep> found = evaluate(std::move(plan), limit);
  if (!found)
    return found.takeError();
  if (found->step < rival.step)
    rival = *found;
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

/// @plan with what is decided already and what the rules ask.
StepPlan Search::complete(StepPlan plan) const {
  for (size_t i = 0; i != program.ops.size(); ++i) {
    plan.keep[i] = given.keep[i] || (rules.keep == PlanRules::Keep::Always &&
                                     choices.earlierGather[i] >= 0);
    plan.group[i] = given.group[i];
  }
  for (size_t v = 0; v != program.values.size(); ++v) {
    plan.recompute[v] =
        given.recompute[v] || (plan.recompute[v] && !given.offload[v]);
    plan.offload[v] =
        given.offload[v] || (plan.offload[v] && !given.recompute[v]);
  }
  // What is computed again decides what is read.
  std::vector<bool> isRead = getReadInBackward(program, plan);
  for (size_t v = 0; v != program.values.size(); ++v)
    if (!isRead[v] && !given.offload[v])
      plan.offload[v] = false;
  if (rules.offload == PlanRules::Offload::Full)
    offloadAll(plan, isRead);
  return plan;
}

/// Puts all on the host that can be there, of what backward reads.
void Search::offloadAll(StepPlan &plan, const std::vector<bool> &isRead) const {
  for (size_t v = 0; v != program.values.size(); ++v)
    if (isRead[v] && !plan.recompute[v] &&
        offers.cost[v] != OffloadOffers::kNone)
      plan.offload[v] = true;
}

/// The plan that repeats what pays at a price level.
StepPlan Search::getRepeating(int level) const {
  StepPlan plan(program);
  if (rules.recompute == PlanRules::Recompute::Full)
    level = kMostLevel;
  if (level > 0)
    plan.recompute = recomputation.choose({getPrice(level)}).recompute;
  return complete(std::move(plan));
}

llvm::Error Search::repeatToFit() {
  // Up to `low` it does not fit.
  int low = 0, high = kMostLevel + 1;
  while (high - low > 1) {
    int middle = (low + high) / 2;
    auto bytes = getLeastBytes(getRepeating(middle));
    if (!bytes)
      return bytes.takeError();
    (*bytes <= budget ? high : low) = middle;
  }
  level = std::min(high, kMostLevel);
  ++way;
  return offer(getRepeating(level));
}

//===----------------------------------------------------------------------===//
// Offload
//===----------------------------------------------------------------------===//

/// Parts of the time on the host's links that offloading costs: hidden behind
/// compute it is free, but there is only so much of it.
static constexpr double kLinkPrices[] = {1, 0.25, 0.0625};
/// The same where what is offloaded makes room for gathered parameters.
static constexpr double kRoomPrices[] = {0.25};
/// Where the links have not enough time for all: eighths of the stretches of
/// forward that offload, evenly spread, and the price for them.
static constexpr int kParts[] = {3, 6};
static constexpr double kPartPrice = 0.0625;

/// The plan that takes the cheapest way for each value where time on the links
/// costs @linkPrice of compute's, and a byte of memory as much as the level
/// says; @eighths of all stretches offload.
StepPlan Search::getOffloading(double linkPrice, int level, int eighths) const {
  llvm::ArrayRef<Id> stretch = recomputation.getStretchOfOps();
  std::vector<double> elsewhere(program.values.size(), -1);
  for (auto [i, op] : llvm::enumerate(program.ops)) {
    Id s = stretch[i];
    if (s < 0 || (s + 1) * eighths / 8 == s * eighths / 8)
      continue;
    for (const ByteRange &range : op.writes)
      if (offers.pays[range.value])
        elsewhere[range.value] = linkPrice * double(offers.cost[range.value]);
  }
  Recomputation::Choice choice = recomputation.choose(
      {getPrice(level), elsewhere,
       /*mayRecompute=*/rules.recompute != PlanRules::Recompute::Never});
  StepPlan plan(program);
  plan.recompute = std::move(choice.recompute);
  plan.offload = std::move(choice.offload);
  return complete(std::move(plan));
}

/// @plan with all on the host that can be there, paying or not.
StepPlan Search::withAllOffloaded(StepPlan plan) const {
  offloadAll(plan, getReadInBackward(program, plan));
  return plan;
}

/// The level at which all that pays is offloaded or repeated. Of two values
/// that pay, the smaller one costs more for a byte: at most twice as much, as
/// its latency is less than its work.
int Search::getLevel(double linkPrice) const {
  int level = 1;
  while (level != kMostLevel &&
         getPrice(level) < 2 * linkPrice * offers.pricePerByte)
    ++level;
  return level;
}

bool Search::fitsHost(const StepPlan &plan) const {
  return getHostBytes(program, plan) <= hostBudget;
}

/// Offers @base, which needs @leastBytes, with so many values back on the
/// device as fit: those that are made last and needed first. Room that they
/// take is missing for copies on their way and prefetches: fewer may be better.
llvm::Error Search::offerReturning(StepPlan base, int64_t leastBytes) {
  SmallVector<Id> returning;
  for (const StepOp &op : llvm::reverse(program.ops))
    for (const ByteRange &range : llvm::reverse(op.writes))
      if (base.offload[range.value] && !given.offload[range.value])
        returning.push_back(range.value);
  auto getReturning = [&](size_t count) {
    StepPlan plan = base;
    for (size_t i = 0; i != count; ++i)
      plan.offload[returning[i]] = false;
    return plan;
  };
  // As many as have room beside the least that the others need.
  auto getCount = [&](int64_t room) {
    size_t count = 0;
    for (; count != returning.size(); ++count)
      if ((room -= program.values[returning[count]].bytes) < 0)
        break;
    return count;
  };
  constexpr int kTries = 4;
  int64_t room = budget - leastBytes;
  for (int i = 0; i != kTries; ++i) {
    auto bytes = getLeastBytes(getReturning(getCount(room)));
    if (!bytes)
      return bytes.takeError();
    if (*bytes <= budget)
      break;
    room = i + 2 == kTries ? 0 : room - (*bytes - budget);
  }
  std::optional<size_t> last;
  for (int64_t part : {room, room / 2}) {
    size_t count = getCount(part);
    StepPlan plan = getReturning(count);
    if (count == last || !fitsHost(plan))
      continue;
    last = count;
    if (llvm::Error error = offer(std::move(plan)))
      return error;
  }
  return llvm::Error::success();
}

/// Offers @base as a way of its own, with values back on the device where there
/// is room for them; says whether it fits.
llvm::Expected<bool> Search::offerBase(const StepPlan &base) {
  ++way;
  auto bytes = getLeastBytes(base);
  if (!bytes)
    return bytes.takeError();
  bool fits = *bytes <= budget;
  if (fits || fitsHost(base))
    if (llvm::Error error = fits ? offerReturning(base, *bytes) : offer(base))
      return std::move(error);
  return fits;
}

/// What offloads no more than it must, for each price of time on the links; and
/// for parts of forward, each with the lowest price of memory at which it fits.
llvm::Error Search::offloadToFit() {
  // Several prices often mean the same.
  std::vector<StepPlan> known;
  auto offerNew = [&](const StepPlan &base) -> llvm::Expected<bool> {
    if (llvm::is_contained(known, base))
      return true;
    known.push_back(base);
    return offerBase(base);
  };
  for (double linkPrice : kLinkPrices) {
    StepPlan plan = getOffloading(linkPrice, getLevel(linkPrice), 8);
    if (!llvm::is_contained(plan.offload, true))
      continue;
    auto fits = offerNew(plan);
    // What does not pay to be offloaded may have to be repeated.
    if (fits && !*fits)
      fits = offerNew(getOffloading(linkPrice, kMostLevel, 8));
    if (!fits)
      return fits.takeError();
  }
  int low = 0, high = kMostLevel;
  for (int eighths : kParts) {
    // What offloads more fits at a lower price.
    for (low = 0; high - low > 3;) {
      int middle = (low + high) / 2;
      auto bytes = getLeastBytes(getOffloading(kPartPrice, middle, eighths));
      if (!bytes)
        return bytes.takeError();
      (*bytes <= budget ? high : low) = middle;
    }
    auto fits = offerNew(getOffloading(kPartPrice, high, eighths));
    if (!fits)
      return fits.takeError();
  }
  return offerNew(withAllOffloaded(getRepeating(0))).takeError();
}

/// Where nothing that pays fits: whatever the rules let do. A higher price of
/// memory does not always need less: what is computed again is there at once.
llvm::Error Search::fitAnyhow() {
  std::vector<StepPlan> plans;
  if (rules.recompute == PlanRules::Recompute::Auto)
    for (int price = 20; price <= kMostLevel; price += 20)
      plans.push_back(getRepeating(price));
  if (mayOffload()) {
    plans.push_back(getRepeating(0));
    for (size_t i = 0, e = plans.size(); i != e; ++i)
      plans.push_back(withAllOffloaded(plans[i]));
  }
  if (rules.keep == PlanRules::Keep::Auto) {
    std::vector<Id> gathers = getKeepOrder();
    for (size_t i = 0, e = plans.size(); i != e; ++i) {
      StepPlan plan = plans[i];
      for (Id gather : gathers)
        plan.keep[gather] = true;
      plans.push_back(std::move(plan));
    }
  }
  for (const StepPlan &plan : plans) {
    if (!fitsHost(plan))
      continue;
    ++way;
    auto bytes = getLeastBytes(plan);
    if (!bytes)
      return bytes.takeError();
    if (*bytes > budget) {
      if (!best.fits() && *bytes < best.leastBytes)
        best.plan = plan, best.leastBytes = *bytes;
      continue;
    }
    if (llvm::Error error = llvm::is_contained(plan.offload, true)
                                ? offerReturning(plan, *bytes)
                                : offer(plan))
      return error;
  }
  return llvm::Error::success();
}

//===----------------------------------------------------------------------===//
// Keep
//===----------------------------------------------------------------------===//

/// Gathers that could be kept: most time for a byte first; of equal ones that
/// which is kept for the shortest time.
std::vector<Id> Search::getKeepOrder() const {
  std::vector<Id> gathers;
  for (size_t i = 0; i != program.ops.size(); ++i)
    if (choices.earlierGather[i] >= 0 && !given.keep[i])
      gathers.push_back(i);
  auto rate = [&](Id gather) {
    return double(times.ops[gather].cost.total()) /
           double(std::max<int64_t>(getGatheredBytes(program, gather), 1));
  };
  llvm::sort(gathers, [&](Id a, Id b) {
    return std::make_pair(-rate(a), a) < std::make_pair(-rate(b), b);
  });
  return gathers;
}

llvm::Error Search::keepWhatFits(StepPlan base) {
  std::vector<Id> gathers = getKeepOrder();
  auto getKeeping = [&](size_t count) {
    StepPlan plan = base;
    for (size_t i = 0; i != count; ++i)
      plan.keep[gathers[i]] = true;
    return plan;
  };
  // As many as fit: up to `low` they do. What more of them need grows about
  // evenly, so it is mostly known from both ends which can be the last.
  size_t low = 0, high = gathers.size() + 1;
  int64_t lowBytes = 0, highBytes = 0;
  for (int trial = 0; high - low > 1; ++trial) {
    size_t middle = low + (high - low + 1) / 2;
    if (trial == 0)
      middle = gathers.size(); // often all of them
    else if (trial < 6 && lowBytes && highBytes > lowBytes)
      middle = low + size_t(double(high - low) * (budget - lowBytes) /
                            (highBytes - lowBytes));
    middle = std::clamp(middle, low + 1, high - 1);
    auto bytes = getLeastBytes(getKeeping(middle));
    if (!bytes)
      return bytes.takeError();
    bool fits = *bytes <= budget;
    (fits ? low : high) = middle;
    (fits ? lowBytes : highBytes) = *bytes;
  }
  isShort |= low < gathers.size();
  // Memory that is kept is missing for prefetches: fewer may be better.
  llvm::SmallSetVector<size_t, 3> counts;
  for (size_t count : {low, low - low / 8, low / 2})
    if (count > 0 && counts.insert(count))
      if (llvm::Error error = offer(getKeeping(count)))
        return error;
  return llvm::Error::success();
}

/// Repeats or offloads more than it must, and keeps what that makes room for.
llvm::Error Search::tradeForRoom() {
  std::vector<StepPlan> bases;
  if (rules.recompute == PlanRules::Recompute::Auto)
    for (int more : {6, 18})
      if (level + more <= kMostLevel)
        bases.push_back(getRepeating(level ? level + more : 36 + more));
  if (mayOffload()) {
    for (double linkPrice : kRoomPrices)
      bases.push_back(
          getOffloading(linkPrice, std::max(level, getLevel(linkPrice)), 8));
    bases.push_back(withAllOffloaded(getRepeating(0)));
  }
  for (const StepPlan &base : bases) {
    if (!fitsHost(base) ||
        (base.recompute == given.recompute && base.offload == given.offload))
      continue;
    ++way;
    if (llvm::Error error = keepWhatFits(base))
      return error;
  }
  return llvm::Error::success();
}

/// Offloads all that can be, and takes back what has room, as offloadToFit does
/// where the step does not fit.
llvm::Error Search::offloadForRoom() {
  auto fits = offerBase(withAllOffloaded(getRepeating(0)));
  if (!fits)
    return fits.takeError();
  const PlannedStep &returned = finalists[{true, way}];
  return returned.fits() ? keepWhatFits(returned.plan) : llvm::Error::success();
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
      int64_t mine = program.transfers[program.ops[row[i]].transfer].getBytes();
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

/// As getGrouped; numbers with one member mean nothing.
StepPlan Search::getBuckets(const StepPlan &base, int64_t most,
                            size_t alone) const {
  StepPlan plan = getGrouped(base, most, alone);
  llvm::DenseMap<Id, int> members;
  for (Id number : plan.group)
    if (number >= 0)
      ++members[number];
  for (Id &number : plan.group)
    if (number >= 0 && members[number] == 1)
      number = -1;
  return plan;
}

/// @base keeps so much that buckets have no room: gives up what gains least.
llvm::Error Search::groupInsteadOfKeeping(const StepPlan &base, int64_t most,
                                          size_t alone) {
  std::vector<Id> kept = getKeepOrder();
  llvm::erase_if(kept, [&](Id gather) { return !base.keep[gather]; });
  StepPlan plan = base;
  for (size_t fewer = 1; !kept.empty(); fewer *= 2) {
    for (size_t i = 0; i != fewer && !kept.empty(); ++i) {
      plan.keep[kept.back()] = false;
      kept.pop_back();
    }
    StepPlan grouped = getBuckets(plan, most, alone);
    auto bytes = getLeastBytes(grouped);
    if (!bytes)
      return bytes.takeError();
    if (*bytes > budget)
      continue;
    if (llvm::Error error = offer(std::move(grouped)))
      return error;
  }
  return llvm::Error::success();
}

llvm::Error Search::group(const StepPlan &base) {
  std::vector<Id> last = base.group;
  for (auto [most, alone] : kBuckets) {
    StepPlan plan = getBuckets(base, most, alone);
    if (plan.group == last)
      continue;
    last = plan.group;
    if (isShort && rules.keep == PlanRules::Keep::Auto)
      if (llvm::Error error = groupInsteadOfKeeping(base, most, alone))
        return error;
    if (llvm::Error error = offer(std::move(plan)))
      return error;
  }
  return llvm::Error::success();
}

llvm::Error Search::run() {
  if (rules.group &&
      llvm::all_of(given.group, [](Id group) { return group < 0; }))
    for (auto [op, timed] : llvm::zip(program.ops, times.ops))
      if (op.kind == StepOpKind::Start)
        bucketsGain += timed.cost.latency;
  if (rules.offload == PlanRules::Offload::Full && hostBudget == 0)
    return llvm::createStringError(
        "expected links.host in the cluster file beside offload full, got "
        "none");
  llvm::Expected<PlannedStep> plain =
      evaluate(getRepeating(0), PlannedStep::kNever);
  if (!plain)
    return plain.takeError();
  best = std::move(*plain);
  finalists[{llvm::is_contained(best.plan.offload, true), way}] = best;
  if (!fitsHost(best.plan))
    return llvm::createStringError(
        "expected at most " + std::to_string(hostBudget) +
        " bytes of activations on the host (memory_gib of links.host in the "
        "cluster file), got " +
        std::to_string(getHostBytes(program, best.plan)));
  bool mayRepeat = rules.recompute == PlanRules::Recompute::Auto;
  bool isTight = !best.fits();
  if (!best.fits() && mayRepeat)
    if (llvm::Error error = repeatToFit())
      return error;
  if (isTight && mayOffload())
    if (llvm::Error error = offloadToFit())
      return error;
  if (!best.fits())
    if (llvm::Error error = fitAnyhow())
      return error;
  if (best.fits() && rules.keep == PlanRules::Keep::Auto) {
    for (StepPlan &plan : getFinalists(kWaysToFill)) {
      ++way;
      if (llvm::Error error = keepWhatFits(std::move(plan)))
        return error;
    }
    if (isShort)
      if (llvm::Error error = tradeForRoom())
        return error;
    if (isShort && !isTight && mayOffload())
      if (llvm::Error error = offloadForRoom())
        return error;
  }
  // Bytes take as long together as alone: latencies are all that they can gain.
  if (best.fits() && bucketsGain >= best.step / 1000) {
    SmallVector<StepPlan> bases = getFinalists(kWaysToGroup);
    bucketsGain = 0;
    for (const StepPlan &plan : bases) {
      ++way;
      if (llvm::Error error = group(plan))
        return error;
    }
  }
  putInWords({program, times, choices, offers, rules, given, isShort}, best);
  return llvm::Error::success();
}

PlannedStep Search::takeBest() { return std::move(best); }

llvm::Expected<PlannedStep>
mlir::fsdp::sched::planStep(const StepProgram &program, const CostModel &cost,
                            llvm::ArrayRef<GroupPlacement> placements,
                            const MemoryLimits &limits, const PlanRules &rules,
                            const StepPlan *given, PlanNeeds *needs) {
  StepPlan none(program);
  PlanNeeds own;
  if (given) {
    if (std::string error = checkPlan(program, *given); !error.empty())
      return llvm::createStringError(error);
    // Somebody must say what the copies cost.
    if (limits.host == 0 && llvm::is_contained(given->offload, true))
      return llvm::createStringError(
          "expected links.host in the cluster file beside values that are "
          "offloaded, got none");
  }
  Search search(program, cost, placements, limits, rules, given ? *given : none,
                needs ? *needs : own);
  if (llvm::Error error = search.run())
    return std::move(error);
  return search.takeBest();
}
