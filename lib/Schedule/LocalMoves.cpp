//===- LocalMoves.cpp - A schedule, changed a little ----------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "LocalMoves.h"
#include "fsdp/Schedule/Makespan.h"
#include "fsdp/Schedule/SchedulePeak.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <optional>
#include <tuple>

using namespace mlir::fsdp;
using namespace mlir::fsdp::sched;

/// Ops that are simulated, over all that is tried: enough for many rounds of
/// small steps, and for what compute waits for most of large ones.
static constexpr size_t kWork = 100'000;

namespace {
/// Of @transfer: behind @other on its link, or no longer; or so many places
/// later. What compute waits meanwhile.
struct Move {
  Id transfer, other = -1;
  int places = 0;
  Time stall = 0;
};
} // namespace

/// What compute waits from @begin to @end.
static Time getStall(const Simulation &simulation, Time begin, Time end) {
  Time stall = 0;
  for (const Span &op : simulation.compute)
    stall += std::max<Time>(0, std::min(end, op.begin) -
                                   std::max(begin, op.begin - op.stall));
  return stall;
}

/// Those first for which compute waits longest: pairs on one link of which one
/// waits, or both are there at once, then places.
static std::vector<Move> getMoves(const ScheduleProblem &problem,
                                  const Schedule &schedule) {
  Simulation simulation = simulate(problem, schedule);
  std::vector<Move> moves;
  for (auto [t, transfer] : llvm::enumerate(problem.transfers)) {
    const Span &span = simulation.transfers[t];
    for (auto [o, other] : llvm::enumerate(problem.transfers)) {
      if (transfer.cost.link != other.cost.link ||
          transfer.queue == other.queue)
        continue;
      const Span &theirs = simulation.transfers[o];
      bool waits = llvm::is_contained(schedule.after[t], Id(o));
      bool areTogether = theirs.begin < span.end && theirs.end > span.begin;
      if (waits || areTogether)
        moves.push_back({Id(t), Id(o), 0,
                         getStall(simulation, waits ? theirs.begin : span.begin,
                                  span.end)});
    }
  }
  llvm::sort(moves, [](const Move &a, const Move &b) {
    return std::make_tuple(-a.stall, a.transfer, a.other) <
           std::make_tuple(-b.stall, b.transfer, b.other);
  });
  for (Id t = 0, e = problem.transfers.size(); t != e; ++t)
    for (int places : {-1, 1})
      moves.push_back({t, -1, places});
  return moves;
}

/// Issued where it starts: behind those that start there if it comes from
/// behind, else before them.
static void changePlace(Id t, Id place, Schedule &schedule) {
  bool isEarlier = place < schedule.place[t];
  llvm::erase(schedule.issue, t);
  auto to = llvm::find_if(schedule.issue, [&](Id other) {
    return isEarlier ? schedule.place[other] > place
                     : schedule.place[other] >= place;
  });
  schedule.issue.insert(to, t);
  schedule.place[t] = place;
  // Whatever kept it at its place before does not say why it is here.
  schedule.placeCause[t] = Cause::None;
  schedule.known[t] = std::max(schedule.known[t], place);
}

static void changeTurn(Id late, Id early, Schedule &schedule) {
  llvm::SmallVector<Id, 2> &after = schedule.after[late];
  if (llvm::is_contained(after, early)) {
    llvm::erase(after, early);
    return;
  }
  after.push_back(early);
  auto latePlace = llvm::find(schedule.issue, late);
  auto earlyPlace = llvm::find(schedule.issue, early);
  if (earlyPlace < latePlace)
    return;
  std::rotate(latePlace, latePlace + 1, earlyPlace + 1);
  schedule.place[late] = schedule.place[early];
  schedule.placeCause[late] = Cause::None;
  schedule.known[late] = std::max(schedule.known[late], schedule.place[late]);
}

/// None where the rules do not let it.
static std::optional<Schedule> apply(const ScheduleProblem &problem,
                                     Schedule schedule, const Move &move) {
  if (move.other >= 0) {
    changeTurn(move.transfer, move.other, schedule);
  } else {
    Id place = schedule.place[move.transfer] + move.places;
    if (place < 0 || size_t(place) > schedule.line.size())
      return std::nullopt;
    changePlace(move.transfer, place, schedule);
  }
  if (!checkSchedule(problem, schedule).empty())
    return std::nullopt;
  return schedule;
}

Schedule mlir::fsdp::sched::moveLocally(const ScheduleProblem &problem,
                                        Schedule schedule, Time target) {
  // What takes so long that few can be tried is left as it is.
  constexpr size_t kFew = 16;
  size_t tries =
      kWork / (schedule.line.size() + problem.transfers.size() + 1) + 1;
  if (tries < kFew)
    return schedule;
  for (bool better = true; better && schedule.makespan > target;) {
    better = false;
    for (const Move &move : getMoves(problem, schedule)) {
      if (schedule.makespan <= target || !tries)
        return schedule;
      --tries;
      std::optional<Schedule> next = apply(problem, schedule, move);
      if (!next)
        continue;
      next->makespan = simulate(problem, *next).step;
      if (next->makespan >= schedule.makespan || !fitsBudget(problem, *next))
        continue;
      schedule = *std::move(next);
      better = true;
    }
  }
  return schedule;
}
