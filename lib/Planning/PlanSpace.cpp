//===- PlanSpace.cpp - What plans are chosen from -------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PlanSpace.h"

#include "llvm/ADT/STLExtras.h"

#include <cmath>
#include <map>

using namespace mlir::fsdp;
using namespace mlir::fsdp::sched;
using llvm::SmallVector;

int64_t mlir::fsdp::sched::getGatheredBytes(const StepProgram &program,
                                            Id gather) {
  int64_t bytes = 0;
  for (const ByteRange &range : program.ops[gather].writes)
    bytes += program.buffers[program.values[range.value].buffer].bytes;
  return bytes;
}

TransferRow mlir::fsdp::sched::getRow(const StepProgram &program,
                                      const StepOp &start) {
  const StepTransfer &transfer = program.transfers[start.transfer];
  return {int(transfer.kind), transfer.group, start.backward};
}

int64_t mlir::fsdp::sched::getHostBytes(const StepProgram &program,
                                        const StepPlan &plan) {
  int64_t bytes = getHostStateBytes(program);
  for (auto [v, value] : llvm::enumerate(program.values))
    bytes += plan.offload[v] ? value.bytes : 0;
  return bytes;
}

/// By transfer: the last one that it needs and that cannot be in its group, of
/// those that groups are made of: neighbours of one kind, group of ranks and
/// phase. Gathers are issued where the first of them stands, and so may need no
/// transfer at all from there on.
static std::vector<Id> findGroupFloors(const StepProgram &program) {
  std::map<TransferRow, size_t> rows;
  for (const StepOp &op : program.ops)
    if (op.kind == StepOpKind::Start)
      rows.try_emplace(getRow(program, op), rows.size());
  // By value: the last transfer of each row that it needs, and of all.
  size_t any = rows.size();
  const SmallVector<Id> none(any + 1, -1);
  std::vector<SmallVector<Id>> last(program.values.size(), none);
  std::vector<Id> floors(program.ops.size(), -1);
  for (auto [i, op] : llvm::enumerate(program.ops)) {
    SmallVector<Id> needed = none;
    for (const ByteRange &range : op.reads)
      for (auto [most, one] : llvm::zip_equal(needed, last[range.value]))
        most = std::max(most, one);
    if (op.kind == StepOpKind::Start) {
      size_t row = rows.at(getRow(program, op));
      floors[i] = needed[op.queue == Queue::AllGather ? any : row];
      needed[row] = needed[any] = i;
    }
    for (const ByteRange &range : op.writes)
      last[range.value] = needed;
  }
  return floors;
}

PlanSpace::PlanSpace(const StepProgram &program, const CostModel &cost,
                     llvm::ArrayRef<GroupPlacement> placements, bool hasHost,
                     const PlanRules &rules, const StepPlan &given)
    : program(program), hasHost(hasHost), rules(rules), given(given),
      times(addTimes(program, cost, placements)),
      choices(getPlanChoices(program)), groupFloor(findGroupFloors(program)),
      recomputation(program, times, choices),
      offers(getOffloadOffers(program, times, choices,
                              recomputation.getStretchOfOps(), cost, hasHost)) {
}

/// Picoseconds for a byte.
static double getPrice(int level) { return 0.01 * std::exp2(level / 6.0); }

/// Whether the gather @op may be left out for an earlier one. Not if it is to
/// go with others: that is decided already.
bool PlanSpace::mayKeep(Id op) const {
  return choices.earlierGather[op] >= 0 && !given.keep[op] &&
         given.group[op] < 0;
}

/// @plan with what is decided already and what the rules ask.
StepPlan PlanSpace::complete(StepPlan plan) const {
  for (size_t i = 0; i != program.ops.size(); ++i) {
    plan.keep[i] =
        given.keep[i] || (rules.keep == PlanRules::Keep::Always && mayKeep(i));
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
void PlanSpace::offloadAll(StepPlan &plan,
                           const std::vector<bool> &isRead) const {
  for (size_t v = 0; v != program.values.size(); ++v)
    if (isRead[v] && !plan.recompute[v] &&
        offers.cost[v] != OffloadOffers::kNone)
      plan.offload[v] = true;
}

StepPlan PlanSpace::getRepeating(int level) const {
  StepPlan plan(program);
  if (rules.recompute == PlanRules::Recompute::Full)
    level = kMostLevel;
  if (level > 0)
    plan.recompute = recomputation.choose({getPrice(level)}).recompute;
  return complete(std::move(plan));
}

StepPlan PlanSpace::getOffloading(double linkPrice, int level, int eighths,
                                  bool mayRecompute) const {
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
       mayRecompute && (rules.mayRecompute() ||
                        rules.recompute == PlanRules::Recompute::Full)});
  StepPlan plan(program);
  plan.recompute = std::move(choice.recompute);
  plan.offload = std::move(choice.offload);
  return complete(std::move(plan));
}

StepPlan PlanSpace::withAllOffloaded(StepPlan plan) const {
  offloadAll(plan, getReadInBackward(program, plan));
  return plan;
}

/// Of two values that pay, the smaller one costs more for a byte: at most twice
/// as much, as its latency is less than its work.
int PlanSpace::getLevel(double linkPrice) const {
  int level = 1;
  while (level != kMostLevel &&
         getPrice(level) < 2 * linkPrice * offers.pricePerByte)
    ++level;
  return level;
}

int PlanSpace::getLowestLevel() const {
  int low = 0, high = kMostLevel;
  while (high - low > 1) {
    int middle = (low + high) / 2;
    (getRepeating(middle).recompute == given.recompute ? low : high) = middle;
  }
  return high;
}

std::vector<Id> PlanSpace::getKeepOrder() const {
  std::vector<Id> gathers;
  for (size_t i = 0; i != program.ops.size(); ++i)
    if (mayKeep(i))
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
