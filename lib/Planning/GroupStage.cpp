//===- GroupStage.cpp - Neighbouring transfers issued together ------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PlanStages.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/STLExtras.h"

#include <map>

using namespace mlir::fsdp;
using namespace mlir::fsdp::sched;
using llvm::SmallVector;

/// What is tried: MiB of a bucket, and how many transfers stay alone first.
/// Latencies want large ones, what waits for the first of them small ones.
static constexpr std::pair<int64_t, size_t> kBuckets[] = {
    {4, 0},   {4, 1},    {16, 1},   {32, 1},  {64, 1},  {128, 1},  {256, 1},
    {512, 1}, {1024, 1}, {2048, 1}, {256, 2}, {512, 2}, {1024, 2}, {2048, 3}};

std::vector<SmallVector<Id>>
mlir::fsdp::sched::getRows(const StepProgram &program, const StepPlan &plan) {
  std::map<TransferRow, SmallVector<Id>> rows;
  for (auto [i, op] : llvm::enumerate(program.ops))
    // Copies of states to and from the host are issued one by one.
    if (op.kind == StepOpKind::Start && !plan.keep[i] &&
        !program.transfers[op.transfer].isCopy())
      rows[getRow(program, op)].push_back(i);
  std::vector<SmallVector<Id>> result;
  for (auto &[key, row] : rows)
    result.push_back(std::move(row));
  return result;
}

/// @base with neighbouring transfers of one kind, group and phase together, up
/// to @most MiB. The first @alone and the last of a kind and phase stay
/// alone: compute waits for them. With 0 none does: all wait for latencies.
static StepPlan getGrouped(const PlanSpace &space, const StepPlan &base,
                           int64_t most, size_t alone) {
  const StepProgram &program = space.program;
  StepPlan plan = base;
  Id number = 0;
  for (const SmallVector<Id> &row : getRows(program, plan)) {
    int64_t bytes = 0;
    Id first = -1;
    size_t end = row.size() - (alone ? 1 : 0);
    for (size_t i = alone; i < end; ++i) {
      int64_t mine = program.transfers[program.ops[row[i]].transfer].getBytes();
      bool fits = bytes + mine <= most << 20;
      if (bytes && (!fits || space.groupFloor[row[i]] >= first)) {
        bytes = 0;
        ++number;
      }
      if (!bytes)
        first = row[i];
      bytes += mine;
      plan.group[row[i]] = number;
    }
    ++number;
  }
  return plan;
}

/// As getGrouped; numbers with one member mean nothing.
static StepPlan getBuckets(const PlanSpace &space, const StepPlan &base,
                           int64_t most, size_t alone) {
  StepPlan plan = getGrouped(space, base, most, alone);
  llvm::DenseMap<Id, int> members;
  for (Id number : plan.group)
    if (number >= 0)
      ++members[number];
  for (Id &number : plan.group)
    if (number >= 0 && members[number] == 1)
      number = -1;
  return plan;
}

/// The latencies that @grouped does not pay.
static Time getSaved(const PlanSpace &space, const StepPlan &grouped) {
  Time saved = 0;
  llvm::DenseSet<Id> known;
  for (auto [i, op] : llvm::enumerate(space.program.ops))
    if (Id group = grouped.group[i]; group >= 0 && !known.insert(group).second)
      saved += space.times.ops[i].cost.latency;
  return saved;
}

Time mlir::fsdp::sched::getGainOfGroups(const PlanSpace &space) {
  Time gain = 0;
  if (space.mayGroup())
    for (auto [most, alone] : kBuckets)
      gain = std::max(
          gain, getSaved(space, getBuckets(space, space.given, most, alone)));
  return gain;
}

/// @base keeps so much that buckets have no room: gives up what gains least.
static llvm::Expected<Way> groupInsteadOfKeeping(const PlanSpace &space,
                                                 const PlanTrials &trials,
                                                 const StepPlan &base,
                                                 int64_t most, size_t alone) {
  Way way;
  std::vector<Id> kept = space.getKeepOrder();
  llvm::erase_if(kept, [&](Id gather) { return !base.keep[gather]; });
  StepPlan plan = base;
  for (size_t fewer = 1; !kept.empty(); fewer *= 2) {
    for (size_t i = 0; i != fewer && !kept.empty(); ++i) {
      plan.keep[kept.back()] = false;
      kept.pop_back();
    }
    StepPlan grouped = getBuckets(space, plan, most, alone);
    auto bytes = trials.getLeastBytes(grouped);
    if (!bytes)
      return bytes.takeError();
    if (*bytes <= trials.getBudget())
      way.push_back(std::move(grouped));
  }
  return std::move(way);
}

llvm::Error mlir::fsdp::sched::groupTransfers(const PlanSpace &space,
                                              PlanTrials &trials,
                                              llvm::ArrayRef<StepPlan> bases,
                                              bool isShort) {
  struct Bucketed {
    size_t base;
    int64_t most;
    size_t alone;
    StepPlan plan;
  };
  std::vector<Bucketed> all;
  for (auto [i, base] : llvm::enumerate(bases)) {
    std::vector<Id> last;
    for (auto [most, alone] : kBuckets) {
      StepPlan plan = getBuckets(space, base, most, alone);
      if (plan.group == last ||
          getSaved(space, plan) < trials.getBest().step / kWorthIt)
        continue;
      last = plan.group;
      all.push_back({i, most, alone, std::move(plan)});
    }
  }
  bool givesUp = isShort && space.rules.mayKeep();
  auto found =
      trials.findEach<Way>(all.size(), [&](size_t i) -> llvm::Expected<Way> {
        Bucketed &one = all[i];
        if (!givesUp)
          return Way{std::move(one.plan)};
        auto way = groupInsteadOfKeeping(space, trials, bases[one.base],
                                         one.most, one.alone);
        if (way)
          way->push_back(std::move(one.plan));
        return way;
      });
  if (!found)
    return found.takeError();
  std::vector<Way> ways(bases.size());
  for (auto [one, way] : llvm::zip(all, *found))
    llvm::append_range(ways[one.base], way);
  return trials.offer(ways);
}
