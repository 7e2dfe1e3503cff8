//===- StepFit.cpp - The plan and order whose arena fits ------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Planning/StepFit.h"
#include "fsdp/Planning/BudgetSearch.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <tuple>
#include <vector>

using namespace mlir::fsdp;
using namespace mlir::fsdp::sched;

/// Budgets are told apart by as much as places are.
constexpr int64_t kGranule = 256;
/// Whatever an arena takes, no other order of its plan is tried.
constexpr int64_t kNoTarget = std::numeric_limits<int64_t>::max();

namespace {
/// What was tried for one budget.
class Fitting {
public:
  Fitting(StepTrials &trials, int64_t budget)
      : trials(trials), budget(budget) {}

  llvm::Error fill();
  llvm::Error probe();
  llvm::Error squeeze();
  void refine(int64_t most);

  /// What the best takes; 0: nothing fits.
  int64_t bestBytes = 0;
  /// The least that an arena took; 0: nothing has been tried.
  int64_t needed = 0;

private:
  using Outcome = StepTrials::Outcome;
  llvm::Expected<Outcome> attempt(int64_t model, int64_t target);
  llvm::Expected<Outcome> tryOrders(int64_t planned, int64_t target);
  llvm::Error search(bool firstOnly);
  llvm::Error tryLess();
  llvm::Error tryBeside();
  llvm::Error tryWithout();
  llvm::Error tryPlain();
  void consider(const Outcome &outcome);
  /// What fits takes over 1/@part more than what did not.
  bool isSlower(int part) const {
    return bestBytes && hoped && bestTime - hoped > hoped / part;
  }
  /// Memory is short, and what fits far from what its plan could take.
  bool isFar() const {
    return bestBytes && (hoped || whole->plainBytes > budget) &&
           bestTime - bestBound > bestBound / 32;
  }
  /// A plan for more memory would hardly be faster.
  bool isSettled() const { return bestBytes && hoped && !isSlower(500); }

  StepTrials &trials;
  int64_t budget;
  Time bestTime = 0, bestBound = 0;
  /// What the plan was made for that was ordered last, and the best one.
  int64_t model = 0, bestModel = 0;
  /// The least that an order took that did not fit; 0: all did.
  Time hoped = 0;
  /// The last plan is the one that needs least: for less it is the same.
  bool isLeastPlan = false;
  /// What was planned for the whole budget, first of all.
  std::optional<StepTrials::Planned> whole;
  /// All that fits.
  std::vector<Outcome> found;
  /// The step without changes, if that was tried.
  std::optional<Outcome> plain;
};
} // namespace

/// Returns what comes of the first order of the plan for @model bytes.
llvm::Expected<StepTrials::Outcome> Fitting::attempt(int64_t model,
                                                     int64_t target) {
  auto planned = trials.plan(model);
  if (!planned)
    return planned.takeError();
  isLeastPlan = !planned->fits;
  bool isFirst = !whole;
  if (isFirst)
    whole = *planned;
  llvm::Expected<Outcome> outcome = tryOrders(model, target);
  if (outcome && isFirst && whole->isPlain)
    plain = *outcome;
  return outcome;
}

/// Whether @outcomes have that of the same order of the same plan.
static bool hasOrderOf(llvm::ArrayRef<StepTrials::Outcome> outcomes,
                       const StepTrials::Outcome &outcome) {
  return llvm::any_of(outcomes, [&](const StepTrials::Outcome &o) {
    return o.number == outcome.number;
  });
}

/// Keeps what was ordered last if it fits and is better.
void Fitting::consider(const Outcome &outcome) {
  needed = needed ? std::min(needed, outcome.bytes) : outcome.bytes;
  if (outcome.bytes > budget)
    return;
  if (!hasOrderOf(found, outcome))
    found.push_back(outcome);
  if (bestBytes && outcome.time >= bestTime)
    return;
  trials.keep();
  bestBytes = outcome.bytes;
  bestTime = outcome.time;
  bestBound = outcome.bound;
  bestModel = model;
}

/// Returns what comes of the first order of the last plan, which is for
/// @planned bytes. Where its arena takes more than @target, others of the same
/// plan are tried, too: that is quicker than another plan, and mostly as fast a
/// step. First those that leave room but at the fullest moments, which pack
/// better; then one for less.
llvm::Expected<StepTrials::Outcome> Fitting::tryOrders(int64_t planned,
                                                       int64_t target) {
  constexpr int kRooms[] = {16, 8}, kOrders = std::size(kRooms) + 2;
  Outcome first;
  OrderLimits limits{planned, 0};
  model = planned;
  for (int i = 0; i != kOrders && limits.budget > 0; ++i) {
    llvm::Expected<Outcome> now = trials.order(limits);
    if (!now)
      return now.takeError();
    consider(*now);
    bool fits = now->bytes <= budget;
    if (!i)
      first = *now;
    if (!fits)
      hoped = hoped ? std::min(hoped, now->time) : now->time;
    if (fits || now->bytes <= target)
      break;
    if (i < int(std::size(kRooms)))
      limits.room = first.bytes / kRooms[i];
    else
      limits.budget -= now->bytes - target + target / 128;
  }
  return first;
}

/// Plans are compared by quick orders and fit by a model. Packed and ordered
/// with more care, the step without changes may be faster, where a plan gains
/// little, or fit after all as FSDP orders it: no plan is kept that is worse
/// than that.
llvm::Error Fitting::tryPlain() {
  constexpr int kClose = 16, kLittle = 64;
  int64_t most = budget + budget / kClose;
  bool isWorth = !bestBytes || hoped || whole->isPlain ||
                 whole->plain == StepTrials::kNever ||
                 whole->plain - bestTime < bestTime / kLittle;
  if (whole->plainBytes > most || !isWorth)
    return llvm::Error::success();
  if (llvm::Error error = trials.planPlainly(budget))
    return error;
  if (!whole->isPlain) {
    llvm::Expected<Outcome> outcome = trials.order({budget, 0});
    if (!outcome)
      return outcome.takeError();
    consider(*outcome);
    plain = *outcome;
  }
  auto like =
      trials.orderLikeFSDP(most, bestBytes ? bestTime : StepTrials::kNever);
  if (!like)
    return like.takeError();
  if (*like)
    consider(**like);
  return llvm::Error::success();
}

/// What is repeated and offloaded follows from prices of memory, in steps: a
/// plan that just fits may leave too little room to be fast, and one for less
/// memory repeat hardly more.
llvm::Error Fitting::tryLess() {
  if (!bestBytes || whole->plainBytes <= budget)
    return llvm::Error::success();
  return attempt(std::max<int64_t>(budget - budget / 64 * 3, 1), budget)
      .takeError();
}

/// An order that is far from what its plan could take, because memory is short,
/// says little about the others: what is planned for hardly more or less may do
/// other things, and have a much better one.
llvm::Error Fitting::tryBeside() {
  constexpr int64_t kParts[] = {512, -512, 64};
  int64_t from = bestModel;
  for (int64_t part : kParts) {
    if (!isFar())
      break;
    int64_t apart = std::max(from / std::abs(part), kGranule);
    int64_t beside = part < 0 ? std::max(from - apart, kGranule) : from + apart;
    if (llvm::Error error = attempt(beside, budget).takeError())
      return error;
  }
  return llvm::Error::success();
}

/// What is fastest by the model may not pack in any order, and what is planned
/// for less memory be much slower, while what is somewhat slower by the model,
/// because it has to do without something, packs.
llvm::Error Fitting::tryWithout() {
  constexpr int kClose = 16;
  for (PlanDecision::Kind kind : whole->kinds) {
    if (!isSlower(32) && !isFar())
      break;
    auto planned = trials.planWithout(kind, budget);
    if (!planned)
      return planned.takeError();
    if (!planned->fits || planned->time - bestTime > bestTime / kClose)
      continue;
    if (llvm::Error error = tryOrders(budget, budget).takeError())
      return error;
  }
  return llvm::Error::success();
}

llvm::Error Fitting::fill() {
  if (llvm::Error error = search(/*firstOnly=*/false))
    return error;
  if (llvm::Error error = tryLess())
    return error;
  if (llvm::Error error = tryBeside())
    return error;
  if (llvm::Error error = tryWithout())
    return error;
  return tryPlain();
}

/// Looks for anything that fits: where fill() finds something, so does this.
llvm::Error Fitting::probe() {
  if (llvm::Error error = search(/*firstOnly=*/true))
    return error;
  return bestBytes ? llvm::Error::success() : tryPlain();
}

/// Looks for the fastest step within the budget, or the first that fits.
llvm::Error Fitting::search(bool firstOnly) {
  BudgetSearch search(budget);
  while (std::optional<int64_t> model = search.getNext()) {
    llvm::Expected<Outcome> outcome = attempt(*model, budget);
    if (!outcome)
      return outcome.takeError();
    if (!bestBytes && isLeastPlan)
      break;
    if (isSettled() || (firstOnly && bestBytes))
      break;
    search.note(*model, outcome->bytes, /*isSlow=*/isSlower(16));
  }
  return llvm::Error::success();
}

/// Tries what needs as little as possible: by the model, and, since packed a
/// plan that needs more by the model may take less, a few of those. What is
/// tried does not depend on the budget, but that it ends with the first that
/// fits: so no budget is refused that is not below the least of these, which
/// stands in `needed` where none fits.
llvm::Error Fitting::squeeze() {
  constexpr int kPlans = 8, kParts = 64;
  needed = 0;
  llvm::Expected<Outcome> least = attempt(/*model=*/1, /*target=*/1);
  if (!least)
    return least.takeError();
  for (int i = 1; !bestBytes && i != kPlans; ++i) {
    int64_t model = least->bytes - least->bytes / kParts * i;
    llvm::Expected<Outcome> outcome = attempt(model, kNoTarget);
    if (!outcome)
      return outcome.takeError();
    if (isLeastPlan)
      break;
  }
  return llvm::Error::success();
}

/// Orders the best that take at most @most bytes with all care: they should
/// pack as well, and the second may gain more than the first. So may the step
/// without changes, or fit then.
void Fitting::refine(int64_t most) {
  constexpr size_t kRefined = 3;
  budget = std::min(budget, most);
  std::vector<Outcome> best;
  llvm::copy_if(found, std::back_inserter(best),
                [&](const Outcome &o) { return o.bytes <= budget; });
  llvm::sort(best, [](const Outcome &a, const Outcome &b) {
    return std::tie(a.time, a.number) < std::tie(b.time, b.number);
  });
  best.resize(std::min(kRefined, best.size()));
  if (plain && !hasOrderOf(best, *plain))
    best.push_back(*plain);
  for (const Outcome &outcome : best)
    if (outcome.bound < bestTime)
      consider(trials.refine(outcome.number));
}

/// @works: what an arena took. Returns the least that one takes where the next
/// smaller budget leads to nothing; what is kept for it is of @last, which is
/// none where that is @works.
static llvm::Expected<int64_t> findLeastBudget(StepTrials &trials,
                                               int64_t works,
                                               std::optional<Fitting> &last) {
  while (true) {
    Fitting fitting(trials, works - kGranule);
    if (llvm::Error error = fitting.probe())
      return std::move(error);
    if (!fitting.bestBytes)
      return works;
    works = fitting.bestBytes;
    last.emplace(std::move(fitting));
  }
}

llvm::Expected<StepFit> sched::fitStep(StepTrials &trials, int64_t budget) {
  Fitting fitting(trials, budget);
  if (llvm::Error error = fitting.fill())
    return std::move(error);
  if (!fitting.bestBytes)
    if (llvm::Error error = fitting.squeeze())
      return std::move(error);
  if (fitting.bestBytes) {
    fitting.refine(budget);
    return StepFit{fitting.bestBytes, 0};
  }
  std::optional<Fitting> last;
  auto least = findLeastBudget(trials, fitting.needed, last);
  if (!least)
    return least.takeError();
  // A smaller budget may have led to a plan that this one did not: so none is
  // refused above what is said to work.
  if (!last || *least > budget)
    return StepFit{0, *least};
  last->refine(budget);
  return StepFit{last->bestBytes, *least};
}
