//===- PlanWords.cpp - A plan in words ------------------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PlanWords.h"
#include "PlanStages.h"

#include "fsdp/Cost/FormatBytes.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"

#include <set>

using namespace mlir::fsdp;
using namespace mlir::fsdp::sched;

static std::string inMilliseconds(Time time) {
  return llvm::formatv("{0:f3} ms", double(time) / 1e9);
}

namespace {
/// What happens to the results of one launch.
struct Results {
  int64_t repeatedBytes = 0, offloadedBytes = 0, leftBytes = 0;
  /// Of the copies of what is offloaded, and of what could be and is not.
  Time copies = 0, copiesOfLeft = 0;

  Results(const PlanSpace &space, const StepPlan &plan,
          const std::vector<bool> &isRead, const StepOp &op) {
    for (const ByteRange &range : op.writes) {
      Id v = range.value;
      if (plan.recompute[v]) {
        repeatedBytes += range.bytes;
      } else if (plan.offload[v]) {
        offloadedBytes += range.bytes;
        copies += std::max<Time>(space.offers.cost[v], 0);
      } else if (isRead[v] && space.offers.pays[v]) {
        leftBytes += range.bytes;
        copiesOfLeft += space.offers.cost[v];
      }
    }
  }
};
} // namespace

constexpr char kLeftOut[] = "what was planned with it does not fit when packed";

constexpr char kSavesNothing[] =
    "computed again they would save nothing: as much would be kept to make "
    "them, or they are there anyway";
constexpr char kNeedsAsMuch[] = "the step would need as much with it";

/// "recompute is none".
template <typename Enum>
static std::string describe(llvm::StringRef option, Enum value) {
  return (option + " is " + getWord(value)).str();
}

namespace {
/// What the budget says of all decisions.
enum class Room { Enough, Short, None };
} // namespace

/// Why nothing of a kind was done to what waits for backward.
static std::string getReason(const PlanRules &rules, Room room) {
  if (rules.recompute == PlanRules::Recompute::Never)
    return describe("recompute", rules.recompute);
  if (rules.recompute == PlanRules::Recompute::Full)
    return kSavesNothing;
  if (rules.leftOut == PlanDecision::Recompute)
    return kLeftOut;
  if (room == Room::None)
    return kNeedsAsMuch;
  return room == Room::Short
             ? "what is kept, offloaded and grouped leaves room for it"
             : "the step fits with it";
}

static std::string getReason(const PlanSpace &space, Room room) {
  if (space.rules.offload == PlanRules::Offload::Never)
    return describe("offload", space.rules.offload);
  if (!space.hasHost)
    return "the cluster has no link to the host";
  if (space.rules.offload == PlanRules::Offload::Full)
    return "all of it is computed again";
  if (space.rules.leftOut == PlanDecision::Offload)
    return kLeftOut;
  if (room == Room::None)
    return kNeedsAsMuch;
  return room == Room::Short
             ? "there is room for it, or it is cheaper computed again"
             : "the step fits with it";
}

/// Why results wait for backward where others are computed again. @saves:
/// whether they would be if memory were all that counts.
static std::string getReasonToKeep(const PlanRules &rules, Room room,
                                   bool saves) {
  if (rules.recompute == PlanRules::Recompute::Never)
    return describe("recompute", rules.recompute);
  if (!saves)
    return kSavesNothing;
  if (rules.leftOut == PlanDecision::Recompute)
    return kLeftOut;
  return room == Room::None ? kNeedsAsMuch : "there is room for them";
}

/// Why results stay on the device where others do not.
static std::string getReasonToStay(const PlanRules &rules, Room room) {
  if (rules.offload == PlanRules::Offload::Never)
    return describe("offload", rules.offload);
  if (rules.leftOut == PlanDecision::Offload)
    return kLeftOut;
  return room == Room::None ? kNeedsAsMuch : "they fit on the device";
}

/// What waits for backward on the device, where it might be computed again or
/// lie on the host and nothing is: said of all together.
static void explainWaiting(const PlanSpace &space, Room room,
                           const std::vector<bool> &isRead, PlannedStep &step) {
  const StepPlan &plan = step.plan;
  struct Waiting {
    Id first = -1;
    int64_t bytes = 0;
    void add(Id op, int64_t more) {
      first = first < 0 ? op : first;
      bytes += more;
    }
  } repeatable, offloadable;
  for (auto [i, op] : llvm::enumerate(space.program.ops))
    for (const ByteRange &range : op.writes) {
      if (!isRead[range.value] || op.kind != StepOpKind::Launch)
        continue;
      if (space.choices.canRecompute[i])
        repeatable.add(i, range.bytes);
      if (space.choices.canOffload[range.value])
        offloadable.add(i, range.bytes);
    }
  auto add = [&](PlanDecision::Kind kind, const Waiting &waiting,
                 const std::vector<bool> &taken, const char *what,
                 const std::string &reason) {
    if (waiting.bytes && !llvm::is_contained(taken, true))
      step.decisions.push_back(
          {kind, waiting.first, false,
           llvm::formatv("{0} wait for backward from here on, and nothing is "
                         "{1}: {2}",
                         formatBytes(waiting.bytes), what, reason)});
  };
  add(PlanDecision::Recompute, repeatable, plan.recompute, "computed again",
      getReason(space.rules, room));
  add(PlanDecision::Offload, offloadable, plan.offload, "offloaded",
      getReason(space, room));
}

/// By op: a start beside which others could be issued.
static std::vector<bool> getGroupable(const StepProgram &program,
                                      const StepPlan &plan) {
  std::vector<bool> can(program.ops.size());
  for (const auto &row : getRows(program, plan))
    for (Id start : row)
      can[start] = row.size() > 1;
  return can;
}

static void explain(const PlanSpace &space, bool isShort,
                    const std::vector<bool> &isRead, PlannedStep &step) {
  const StepPlan &plan = step.plan;
  Room room = !step.fits() ? Room::None : isShort ? Room::Short : Room::Enough;
  llvm::DenseMap<Id, int> members;
  for (Id number : plan.group)
    if (number >= 0)
      ++members[number];
  bool offloads = llvm::is_contained(plan.offload, true),
       repeats = llvm::is_contained(plan.recompute, true);
  std::vector<bool> canGroup = getGroupable(space.program, plan);
  explainWaiting(space, room, isRead, step);
  std::vector<bool> saves =
      repeats ? space.getRepeating(PlanSpace::kMostLevel).recompute
              : std::vector<bool>(space.program.values.size());
  for (auto [i, op] : llvm::enumerate(space.program.ops)) {
    const TimedOp &timed = space.times.ops[i];
    auto add = [&, i = i](PlanDecision::Kind kind, bool taken,
                          std::string why) {
      step.decisions.push_back({kind, Id(i), taken, std::move(why)});
    };
    if (space.choices.earlierGather[i] >= 0) {
      std::string price =
          llvm::formatv("{0} from forward to backward save a transfer of {1}",
                        formatBytes(getGatheredBytes(space.program, i)),
                        inMilliseconds(timed.cost.total()));
      bool taken = plan.keep[i];
      add(PlanDecision::Keep, taken,
          taken ? price
          : space.given.group[i] >= 0
              ? price + "; it is in a group that was given"
          : space.rules.keep != PlanRules::Keep::Auto
              ? price + "; " +
                    describe("reshard_after_forward", space.rules.keep)
          : space.rules.leftOut == PlanDecision::Keep ? price + "; " + kLeftOut
          : room != Room::Enough ? price + "; the budget holds no more of them"
                                 : price + "; the step would not be faster");
    }
    Results results(space, plan, isRead, op);
    int64_t waiting = 0;
    for (const ByteRange &range : op.writes)
      if (Id v = range.value;
          isRead[v] && !plan.recompute[v] && !plan.offload[v])
        waiting += range.bytes;
    if (results.repeatedBytes)
      add(PlanDecision::Recompute, true,
          llvm::formatv("{0} less are kept for backward, for {1} of compute",
                        formatBytes(results.repeatedBytes),
                        inMilliseconds(timed.work)));
    else if (repeats && waiting && space.choices.canRecompute[i])
      add(PlanDecision::Recompute, false,
          llvm::formatv(
              "{0} for {1} of compute; {2}", formatBytes(waiting),
              inMilliseconds(timed.work),
              getReasonToKeep(
                  space.rules, room,
                  llvm::any_of(op.writes, [&](const ByteRange &range) {
                    return saves[range.value];
                  }))));
    if (results.offloadedBytes)
      add(PlanDecision::Offload, true,
          llvm::formatv("{0} are on the host until backward, for {1} of its "
                        "links",
                        formatBytes(results.offloadedBytes),
                        inMilliseconds(results.copies)));
    // Of interest where something else had to go.
    else if (results.leftBytes && offloads)
      add(PlanDecision::Offload, false,
          llvm::formatv("{0} for {1} of the host's links; {2}",
                        formatBytes(results.leftBytes),
                        inMilliseconds(results.copiesOfLeft),
                        getReasonToStay(space.rules, room)));
    if (plan.group[i] >= 0)
      add(PlanDecision::Group, true,
          members[plan.group[i]] == 1
              ? std::string("the only one of its group, as given")
              : llvm::formatv("issued with {0} others: one latency of {1}",
                              members[plan.group[i]] - 1,
                              inMilliseconds(timed.cost.latency))
                    .str());
    else if (canGroup[i])
      add(PlanDecision::Group, false,
          llvm::formatv(
              "a latency of {0}; {1}", inMilliseconds(timed.cost.latency),
              space.mayGroup()
                  ? "no group with its neighbours that was tried makes the "
                    "step faster"
              : space.rules.group == PlanRules::Group::Auto
                  ? "other groups are given, so none was tried"
                  : describe("bucket", space.rules.group)));
  }
}

static void summarize(const PlanSpace &space, const std::vector<bool> &isRead,
                      PlannedStep &step) {
  int kept = 0, units = 0, repeated = 0, grouped = 0;
  int64_t keptBytes = 0, repeatedBytes = 0;
  Time saved = 0, spent = 0, copies = 0;
  std::set<Id> groups;
  for (auto [i, op] : llvm::enumerate(space.program.ops)) {
    const TimedOp &timed = space.times.ops[i];
    units += space.choices.earlierGather[i] >= 0;
    if (step.plan.keep[i]) {
      ++kept;
      keptBytes += getGatheredBytes(space.program, i);
      saved += timed.cost.total();
    }
    Results results(space, step.plan, isRead, op);
    repeated += results.repeatedBytes > 0;
    repeatedBytes += results.repeatedBytes;
    spent += results.repeatedBytes ? timed.work : 0;
    copies += results.copies;
    if (step.plan.group[i] >= 0) {
      ++grouped;
      groups.insert(step.plan.group[i]);
    }
  }
  auto &summary = step.summary;
  if (kept)
    summary.push_back(llvm::formatv(
        "{0} of {1} units stay gathered from forward to backward: {2}, and {3} "
        "of transfers, hidden or not, less",
        kept, units, formatBytes(keptBytes), inMilliseconds(saved)));
  if (repeated)
    summary.push_back(llvm::formatv(
        "{0} kernels of forward run again in backward: {1} of activations "
        "less, and {2} of compute more",
        repeated, formatBytes(repeatedBytes), inMilliseconds(spent)));
  if (auto offloaded = llvm::count(step.plan.offload, true))
    summary.push_back(llvm::formatv(
        "{0} values are on the host between forward and backward: {1} of "
        "activations less, and {2} of copies both ways",
        offloaded, formatBytes(getHostBytes(space.program, step.plan)),
        inMilliseconds(copies)));
  if (grouped)
    summary.push_back(llvm::formatv("{0} transfers are issued in {1} groups",
                                    grouped, groups.size()));
}

void mlir::fsdp::sched::putInWords(const PlanSpace &space, bool isShort,
                                   PlannedStep &step) {
  std::vector<bool> isRead = getReadInBackward(space.program, step.plan);
  explain(space, isShort, isRead, step);
  summarize(space, isRead, step);
}
