//===- Scheduler.cpp - Order and places of a step -------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Schedule/Scheduler.h"
#include "EventSearch.h"
#include "LocalMoves.h"
#include "ScheduleWaits.h"
#include "TurnSearch.h"
#include "fsdp/Schedule/FSDPSchedules.h"
#include "fsdp/Schedule/LowerBound.h"
#include "fsdp/Schedule/Makespan.h"
#include "fsdp/Schedule/SchedulePeak.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cassert>
#include <utility>

using namespace mlir::fsdp;
using namespace mlir::fsdp::sched;

/// Transfers up to which every plan of casts is searched, and searches may be
/// that only end where a step is small.
constexpr size_t kSmall = 40;
/// As kEventEffort, where that has not led to the bound.
constexpr int64_t kLongEffort = 100'000;
/// What contention may cost more than it must, as a part of the step, where a
/// longer search is not worth it.
constexpr Time kWorthContention = 1024;
/// The same, and how many states it may look at, of a search that drops only
/// equal ones: it seldom comes to an end.
constexpr Time kWorthEquals = 128;
constexpr int64_t kEqualsEffort = 50'000;
constexpr Time kForever = std::numeric_limits<Time>::max();

//===----------------------------------------------------------------------===//
// Candidates
//===----------------------------------------------------------------------===//

static bool hasCasts(const ScheduleProblem &problem) {
  return llvm::any_of(problem.floating,
                      [](const FloatingOp &op) { return op.before >= 0; });
}

/// Each cast before the first use of the gather that is @ahead gathers before
/// its own.
static CastPlan placeCastsAhead(const ScheduleProblem &problem, size_t ahead) {
  CastPlan plan;
  plan.place.assign(problem.floating.size(), 0);
  std::vector<Id> place(problem.transfers.size());
  for (Queue queue : {Queue::AllGather, Queue::H2D}) {
    std::vector<Id> order = getQueueOrder(problem, queue);
    for (size_t i = ahead; i < order.size(); ++i)
      place[order[i]] = problem.transfers[order[i - ahead]].firstUse;
  }
  for (auto [f, op] : llvm::enumerate(problem.floating))
    if (op.before >= 0)
      plan.place[f] = place[op.before];
  return plan;
}

/// Each cast where its gather starts, given by segments before it.
static CastPlan placeCastsAt(const ScheduleProblem &problem,
                             llvm::ArrayRef<Id> place) {
  CastPlan plan;
  plan.place.assign(problem.floating.size(), 0);
  for (auto [f, op] : llvm::enumerate(problem.floating))
    if (op.before >= 0)
      plan.place[f] =
          std::min(place[op.before], problem.transfers[op.before].firstUse);
  return plan;
}

/// By transfer: segments before its start.
static std::vector<Id> getSegmentsBefore(const Schedule &schedule) {
  std::vector<Id> segments = {0};
  for (LineOp op : schedule.line)
    segments.push_back(segments.back() + !op.floating);
  std::vector<Id> result;
  for (Id place : schedule.place)
    result.push_back(segments[place]);
  return result;
}

/// The same step with casts that take no time and @heldBytes in all.
static ScheduleProblem withoutCasts(const ScheduleProblem &problem,
                                    int64_t heldBytes) {
  ScheduleProblem result = problem;
  for (FloatingOp &op : result.floating)
    if (op.before >= 0)
      op.work = op.heldBytes = 0;
  if (result.budget < kNoBudget)
    result.budget -= heldBytes;
  return result;
}

/// The schedule with the least memory.
static Schedule scheduleFrugally(const ScheduleProblem &problem) {
  ScheduleProblem unbounded = problem;
  unbounded.budget = kNoBudget;
  Machine machine(unbounded, placeCastsAhead(problem, 0), /*frugal=*/true);
  MachineState s = machine.getStart();
  Turns turns;
  Schedule result;
  [[maybe_unused]] bool ok = takeEarliest(machine, s, /*gathersFirst=*/false,
                                          /*early=*/false, turns) &&
                             machine.record(turns, result);
  assert(ok && "without a budget nothing waits forever");
  return result;
}

int64_t mlir::fsdp::sched::getLeastBudget(const ScheduleProblem &problem) {
  return getPeak(problem, scheduleFrugally(problem));
}

namespace {
/// Keeps the best of the schedules that fit; their peaks are for later.
struct Best {
  const ScheduleProblem &problem;
  std::optional<Schedule> schedule;
  /// Of the bytes that better ones took too much, the least.
  int64_t missing = kNoBudget;

  /// False where it takes less time than the best, and does not fit.
  bool offerIfFits(const Schedule &candidate) {
    Time makespan = simulate(problem, candidate).step;
    if (schedule && makespan >= schedule->makespan)
      return true;
    if (!fitsBudget(problem, candidate))
      return false;
    schedule = candidate;
    schedule->makespan = makespan;
    return true;
  }
  void offer(const Schedule &candidate) {
    if (!offerIfFits(candidate))
      missing = std::min(missing, getPeak(problem, candidate) - problem.budget);
  }
};
} // namespace

/// FSDP's schedules within the limits that are asked for; without @all, only
/// those of its default settings.
static void offerFSDP(const ScheduleProblem &problem, bool all, Best &best) {
  const Limits &limits = problem.limits;
  for (bool forward : {true, false})
    for (BackwardPrefetch backward :
         {BackwardPrefetch::Pre, BackwardPrefetch::Post,
          BackwardPrefetch::None})
      for (bool gathersFirst : {false, true}) {
        FSDPOptions options;
        options.forwardPrefetch = forward;
        options.backwardPrefetch = backward;
        options.gathersFirst = gathersFirst;
        options.limitAllGathers = true;
        options.allReduceOnReduceQueue = limits.allReduceOnReduceQueue;
        if ((forward && limits.forwardPrefetch == 0) ||
            (backward != BackwardPrefetch::None &&
             limits.backwardPrefetch == 0) ||
            (backward == BackwardPrefetch::Pre && limits.backwardPost) ||
            limits.inFlight == 1)
          continue;
        if (!all && (!forward || backward != BackwardPrefetch::Pre))
          continue;
        best.offerIfFits(orderLikeFSDP(problem, options));
        options.waitForReductions = false;
        best.offerIfFits(orderLikeFSDP(problem, options));
      }
}

/// With nothing beside anything: best where what runs side by side is slowed
/// down by more than that hides.
static void offerSerial(const ScheduleProblem &problem, Best &best) {
  Schedule serial = scheduleFrugally(problem);
  serial.known = serial.place;
  best.offerIfFits(serial);
}

namespace {
/// Searches with casts at one set of places after the other.
class Candidates {
public:
  /// Nothing that takes less than @target is there, nothing that takes @below
  /// or more is looked for.
  Candidates(const ScheduleProblem &problem, Best &best, Time target,
             Time below)
      : problem(problem), best(best), target(target), below(below) {}
  void run();

private:
  bool isDone() const { return best.schedule->makespan <= target; }
  std::optional<Schedule> search(const ScheduleProblem &p,
                                 const CastPlan &casts, Time below,
                                 bool rulesOnly);
  bool offer(const CastPlan &casts) { return offer(casts, !isSmall); }
  bool offer(const CastPlan &casts, bool rulesOnly);
  void moveCasts();
  void offerFront();
  void offerBoth(CastPlan casts);
  void offerLate();

  const ScheduleProblem &problem;
  Best &best;
  Time target, below;
  /// Large steps: rules tell the plans of casts apart, and one is searched.
  bool isSmall = problem.transfers.size() <= kSmall;
  std::vector<CastPlan> tried;
  CastPlan bestCasts;
};
} // namespace

std::optional<Schedule> Candidates::search(const ScheduleProblem &p,
                                           const CastPlan &casts, Time below,
                                           bool rulesOnly) {
  Machine machine(p, casts, /*frugal=*/false);
  std::optional<Turns> turns =
      searchTurns(machine, {isSmall, target, below, rulesOnly});
  Schedule found;
  if (!turns || !machine.record(*turns, found))
    return std::nullopt;
  return found;
}

/// True if that is better than what there is.
bool Candidates::offer(const CastPlan &casts, bool rulesOnly) {
  bool known = llvm::any_of(tried, [&](const CastPlan &other) {
    return other.place == casts.place && other.reserve == casts.reserve &&
           other.lead == casts.lead;
  });
  if (isDone() || (known && (rulesOnly || isSmall)))
    return false;
  tried.push_back(casts);
  Time before = best.schedule->makespan;
  std::optional<Schedule> found =
      search(problem, casts, std::min(before, below), rulesOnly);
  if (!found)
    return false;
  best.offer(shareLinks(problem, *found));
  best.offer(*found);
  if (best.schedule->makespan >= before)
    return false;
  bestCasts = casts;
  return true;
}

/// Each cast a segment later or earlier, as long as that helps.
void Candidates::moveCasts() {
  for (int round = 0; round != 4 && !isDone(); ++round) {
    bool better = false;
    for (size_t f = 0; f != problem.floating.size(); ++f) {
      const FloatingOp &op = problem.floating[f];
      if (op.before < 0)
        continue;
      Id last = problem.transfers[op.before].firstUse;
      for (int move : {1, -1}) {
        CastPlan plan = bestCasts;
        plan.reserve = false;
        plan.place[f] += move;
        if (plan.place[f] >= 0 && plan.place[f] <= last)
          better |= offer(plan);
      }
    }
    if (!better)
      return;
  }
}

/// The first casts, as many as there is room for, where compute waits for the
/// first gather anyway; the others where their gather is used, the last ones a
/// gather earlier.
void Candidates::offerFront() {
  std::vector<size_t> rank(problem.transfers.size());
  size_t count = 0;
  for (Queue queue : {Queue::AllGather, Queue::H2D})
    for (Id t : getQueueOrder(problem, queue))
      rank[t] = count++;
  CastPlan used = placeCastsAhead(problem, 0);
  CastPlan ahead = placeCastsAhead(problem, 1);
  size_t step = isSmall ? 1 : count / 4 + 1;
  for (size_t front = step; front < count; front += step)
    for (size_t late = front; late <= count && !isDone(); late += step) {
      CastPlan plan = ahead;
      plan.reserve = false;
      for (auto [f, op] : llvm::enumerate(problem.floating)) {
        if (op.before < 0)
          continue;
        if (rank[op.before] < front)
          plan.place[f] = 0;
        else if (rank[op.before] < late)
          plan.place[f] = used.place[f];
      }
      offer(plan);
    }
}

void Candidates::offerBoth(CastPlan casts) {
  offer(casts);
  casts.reserve = false;
  offer(casts);
}

static constexpr int kLeads[] = {6, 0};

/// The best plan of casts, with fetches that leave their room to gathers.
void Candidates::offerLate() {
  // In large steps copies have so much room that it makes no difference.
  if (!isSmall || getQueueOrder(problem, Queue::H2D).empty())
    return;
  CastPlan casts = bestCasts;
  for (int lead : kLeads) {
    casts.lead = lead;
    offer(casts, /*rulesOnly=*/false);
  }
}

void Candidates::run() {
  if (!hasCasts(problem)) {
    bestCasts = placeCastsAhead(problem, 0);
    offer(bestCasts, /*rulesOnly=*/false);
    offerLate();
    return;
  }
  bestCasts = placeCastsAhead(problem, 1);
  offer(bestCasts);
  // Casts are small: first the gathers as if there were none, then the casts
  // where the gathers start, with room for none, one or two of them.
  int64_t held = 0;
  for (const FloatingOp &op : problem.floating)
    held = std::max(held, op.heldBytes);
  for (int count = 0; count != 3 && !isDone(); ++count) {
    ScheduleProblem bare = withoutCasts(problem, count * held);
    CastPlan front = placeCastsAhead(bare, bare.transfers.size());
    offerBoth(placeCastsAt(problem,
                           Machine(bare, front, /*frugal=*/false).getFloors()));
    if (std::optional<Schedule> found = search(bare, front, kForever, !isSmall))
      offerBoth(placeCastsAt(problem, getSegmentsBefore(*found)));
  }
  offer(placeCastsAhead(problem, 2));
  offer(placeCastsAhead(problem, problem.transfers.size()));
  for (int round = 0; round != 2; ++round)
    offerBoth(placeCastsAt(problem, getSegmentsBefore(*best.schedule)));
  offerFront();
  if (isSmall)
    moveCasts();
  else
    offer(CastPlan(bestCasts), /*rulesOnly=*/false);
  offerLate();
}

//===----------------------------------------------------------------------===//
// The search of events
//===----------------------------------------------------------------------===//

/// Offers @found, which waits for everything at once: where that is not needed,
/// or only later, nobody waits for what is late. Returns the bytes that it
/// takes too much.
static int64_t offerRelaxed(const ScheduleProblem &problem,
                            const Schedule &found, Best &best) {
  Schedule loose = withoutMemoryOrder(problem, found);
  best.offerIfFits(loose);
  waitEarly(problem, loose);
  best.offerIfFits(loose);
  return best.offerIfFits(found) ? 0 : getPeak(problem, found) - problem.budget;
}

/// Offers what a search of events finds, where the best takes more than @goal.
/// It knows one timing, and peaks are of any: where nothing fits, it has that
/// much less. @behind: of @problem. Returns its bound.
static Time offerEvents(const ScheduleProblem &problem, LeastTails behind,
                        EventSearchOptions options, Time goal, Best &best) {
  constexpr int kTries = 3;
  ScheduleProblem tighter = problem;
  Time raised = options.bound;
  for (int i = 0;
       i != kTries && best.schedule->makespan > std::max(goal, raised); ++i) {
    if (i != 0)
      behind = getLeastTails(tighter);
    options.enough = best.schedule->makespan;
    EventSearchResult found = searchEvents(tighter, behind, options);
    if (i == 0)
      raised = found.bound;
    if (!found.schedule)
      break;
    int64_t missing = offerRelaxed(problem, *found.schedule, best);
    if (!missing)
      break;
    tighter.budget -= missing;
  }
  return raised;
}

/// Compute takes as long as it takes in @schedule, beside its transfers.
static void takeTimes(const ScheduleProblem &problem, const Schedule &schedule,
                      ScheduleProblem &slowed) {
  Simulation simulation = simulate(problem, schedule);
  for (auto [op, span] : llvm::zip_equal(schedule.line, simulation.compute))
    (op.floating ? slowed.floating[op.id].work : slowed.spine[op.id].work) =
        span.end - span.begin;
}

/// The search of events does not know what slows compute down. So it is told
/// how long compute took in the order that it found last, and how much that
/// takes too much, until it finds the same again or, from the second time on,
/// what fits and is no better. False if it finds nothing.
static bool offerContended(const ScheduleProblem &problem, int haste,
                           Best &best) {
  constexpr int kTries = 5;
  ScheduleProblem slowed = problem;
  std::optional<Schedule> last;
  for (int i = 0; i != kTries; ++i) {
    EventSearchResult found =
        searchEvents(slowed, getLeastTails(slowed),
                     {/*bound=*/0, kForever, kLongEffort, Links::Ideal, haste});
    if (!found.schedule || (last && last->isSameOrder(*found.schedule)))
      break;
    Time before = best.schedule->makespan;
    int64_t missing = offerRelaxed(problem, *found.schedule, best);
    last = std::move(found.schedule);
    if (i != 0 && !missing && best.schedule->makespan == before)
      break;
    slowed.budget -= missing;
    takeTimes(problem, *last, slowed);
  }
  return last.has_value();
}

/// The same, and with ever more haste until there is something: where memory is
/// short, few ways come to the end.
static void offerHastily(const ScheduleProblem &problem, Best &best) {
  for (int haste : {0, 1, 4, 16})
    if (offerContended(problem, haste, best))
      return;
}

/// The search of events as the simulation counts: whether transfers on
/// different links slow compute down at once or one after the other, and which
/// share one link, only that can choose. It takes longer, so it is asked where
/// there is something to gain. @target: no order takes less.
static void offerSimulated(const ScheduleProblem &problem, Time target,
                           Best &best) {
  constexpr int kHastes[] = {0, 16};
  LeastTails behind = getLeastTails(problem);
  EventSearchOptions options;
  options.links = Links::Simulated;
  options.effort = kLongEffort;
  for (int haste : kHastes) {
    options.haste = haste;
    offerEvents(problem, behind, options, target + target / kWorthContention,
                best);
  }
  // Beside latencies, who is ahead may have to share a link with others than
  // who is not.
  bool hasLatencies = llvm::any_of(
      problem.transfers, [](const Transfer &t) { return t.cost.latency; });
  if (problem.transfers.size() > kSmall || !hasLatencies)
    return;
  options.equalsOnly = true;
  options.effort = kEqualsEffort;
  for (int haste : kHastes) {
    options.haste = haste;
    target =
        std::max(target, offerEvents(problem, behind, options,
                                     target + target / kWorthEquals, best));
  }
}

/// As scheduleRoughly(), but for the waits. @target: no order takes less; what
/// is found out about that raises it. One that takes @below or more need not be
/// the best. @thorough: in plans that are only compared, not worth its time.
static std::optional<Schedule> findOrder(const ScheduleProblem &problem,
                                         Time &target, bool thorough,
                                         Time below = kForever) {
  Best best{problem, std::nullopt};
  best.offer(scheduleFrugally(problem));
  if (!best.schedule)
    return std::nullopt;
  if (best.schedule->makespan > target) {
    LeastTails behind = getLeastTails(problem);
    EventSearchOptions options;
    options.bound = target;
    options.effort = kEventEffort;
    target = offerEvents(problem, behind, options, target, best);
    options.bound = target;
    options.links = Links::Exclusive;
    offerEvents(problem, behind, options, target, best);
  }
  if (best.schedule->makespan > target && thorough)
    offerHastily(problem, best);
  if (best.schedule->makespan <= target)
    return std::move(best.schedule);
  Candidates(problem, best, target, below).run();
  // Peaks are of any timing, the search knows one: with many queues it may
  // count on more than its orders guarantee. Then it has that much less; and
  // more and more, where nothing that is any good has been found.
  constexpr int kRetries = 2, kMostRetries = 5;
  ScheduleProblem tighter = problem;
  int64_t less = 0;
  auto isWorth = [&](int retry) {
    Time slack = retry < kRetries ? 0 : target / 20;
    return best.missing < kNoBudget && best.schedule->makespan > target + slack;
  };
  for (int i = 0; i != kMostRetries && isWorth(i); ++i) {
    less = std::max(std::exchange(best.missing, kNoBudget), 2 * less);
    tighter.budget -= less;
    Candidates(tighter, best, target, below).run();
  }
  if (best.schedule->makespan > target) {
    offerFSDP(problem, thorough, best);
    if (problem.cost && thorough)
      offerSerial(problem, best);
  }
  if (!thorough)
    return std::move(best.schedule);
  return moveLocally(problem, *std::move(best.schedule), target);
}

//===----------------------------------------------------------------------===//
// The best of all
//===----------------------------------------------------------------------===//

/// The problem in which its room is taken, wherever the schedule with the least
/// memory can do without.
static ScheduleProblem withRoomTaken(const ScheduleProblem &problem) {
  ScheduleProblem full = problem;
  std::vector<int64_t> peaks = getPeaks(problem, scheduleFrugally(problem));
  for (auto [segment, peak] : llvm::zip_equal(full.spine, peaks))
    segment.live += std::clamp<int64_t>(problem.budget - peak, 0, problem.room);
  return full;
}

/// Notes what @found, made with the room taken, is for @problem: no order takes
/// less than @target.
static Schedule finish(const ScheduleProblem &problem, Schedule found,
                       Time target) {
  found.bound = target;
  found.peak = getPeak(problem, found);
  // Where there is plenty of memory, places do not matter.
  if (found.peak > problem.budget / 4 * 3) {
    waitEarly(problem, found);
    found.peak = getPeak(problem, found);
  }
  return found;
}

std::optional<Schedule>
mlir::fsdp::sched::scheduleRoughly(const ScheduleProblem &problem) {
  ScheduleProblem full = problem.room ? withRoomTaken(problem) : problem;
  Time target = lowerBound(full).value;
  std::optional<Schedule> found = findOrder(full, target, /*thorough=*/true);
  if (!found)
    return std::nullopt;
  return finish(problem, *std::move(found), target);
}

Schedule mlir::fsdp::sched::refine(const ScheduleProblem &problem,
                                   Schedule rough) {
  ScheduleProblem full = problem.room ? withRoomTaken(problem) : problem;
  Time target = rough.bound ? rough.bound : lowerBound(full).value;
  if (rough.makespan <= target)
    return rough;
  Best best{full, std::move(rough)};
  offerSimulated(full, target, best);
  return finish(problem, moveLocally(full, *std::move(best.schedule), target),
                target);
}

std::optional<Schedule>
mlir::fsdp::sched::schedule(const ScheduleProblem &problem) {
  std::optional<Schedule> found = scheduleRoughly(problem);
  if (!found)
    return std::nullopt;
  return refine(problem, *std::move(found));
}

std::optional<Time>
mlir::fsdp::sched::getScheduledTime(const ScheduleProblem &problem, Time bound,
                                    Time below) {
  if (std::optional<Schedule> found =
          findOrder(problem, bound, /*thorough=*/false, below))
    return found->makespan;
  return std::nullopt;
}
