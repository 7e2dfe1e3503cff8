//===- GroupStage.cpp - Neighbouring transfers issued together ------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PlanStages.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLExtras.h"

#include <map>

using namespace mlir::fsdp;
using namespace mlir::fsdp::sched;
using llvm::SmallVector;

/// What is tried: bytes of a bucket, and how many transfers stay alone first.
static constexpr std::pair<int64_t, size_t> kBuckets[] = {
    {int64_t(4) << 20, 0},   {int64_t(4) << 20, 1},   {int64_t(32) << 20, 1},
    {int64_t(256) << 20, 1}, {int64_t(256) << 20, 2}, {int64_t(1) << 30, 2},
    {int64_t(2) << 30, 3}};

std::vector<SmallVector<Id>>
mlir::fsdp::sched::getRows(const StepProgram &program, const StepPlan &plan) {
  std::map<std::tuple<int, Id, bool>, SmallVector<Id>> rows;
  for (auto [i, op] : llvm::enumerate(program.ops))
    if (op.kind == StepOpKind::Start && !plan.keep[i]) {
      const StepTransfer &transfer = program.transfers[op.transfer];
      rows[{int(transfer.kind), transfer.group, op.backward}].push_back(i);
    }
  std::vector<SmallVector<Id>> result;
  for (auto &[key, row] : rows)
    result.push_back(std::move(row));
  return result;
}

/// @base with neighbouring transfers of one kind, group and phase together, up
/// to @most bytes. The first @alone and the last of a kind and phase stay
/// alone: compute waits for them. With 0 none does: all wait for latencies.
static StepPlan getGrouped(const StepProgram &program, const StepPlan &base,
                           int64_t most, size_t alone) {
  StepPlan plan = base;
  Id number = 0;
  for (const SmallVector<Id> &row : getRows(program, plan)) {
    int64_t bytes = 0;
    size_t end = row.size() - (alone ? 1 : 0);
    for (size_t i = alone; i < end; ++i) {
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

/// As getGrouped; numbers with one member mean nothing.
static StepPlan getBuckets(const StepProgram &program, const StepPlan &base,
                           int64_t most, size_t alone) {
  StepPlan plan = getGrouped(program, base, most, alone);
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
static llvm::Error groupInsteadOfKeeping(const PlanSpace &space,
                                         PlanTrials &trials,
                                         const StepPlan &base, int64_t most,
                                         size_t alone) {
  std::vector<Id> kept = space.getKeepOrder();
  llvm::erase_if(kept, [&](Id gather) { return !base.keep[gather]; });
  StepPlan plan = base;
  for (size_t fewer = 1; !kept.empty(); fewer *= 2) {
    for (size_t i = 0; i != fewer && !kept.empty(); ++i) {
      plan.keep[kept.back()] = false;
      kept.pop_back();
    }
    StepPlan grouped = getBuckets(space.program, plan, most, alone);
    auto bytes = trials.getLeastBytes(grouped);
    if (!bytes)
      return bytes.takeError();
    if (*bytes > trials.getBudget())
      continue;
    if (llvm::Error error = trials.offer(std::move(grouped)))
      return error;
  }
  return llvm::Error::success();
}

llvm::Error mlir::fsdp::sched::groupTransfers(const PlanSpace &space,
                                              PlanTrials &trials,
                                              const StepPlan &base,
                                              bool isShort) {
  std::vector<Id> last = base.group;
  for (auto [most, alone] : kBuckets) {
    StepPlan plan = getBuckets(space.program, base, most, alone);
    if (plan.group == last)
      continue;
    last = plan.group;
    if (isShort && space.rules.keep == PlanRules::Keep::Auto)
      if (llvm::Error error =
              groupInsteadOfKeeping(space, trials, base, most, alone))
        return error;
    if (llvm::Error error = trials.offer(std::move(plan)))
      return error;
  }
  return llvm::Error::success();
}
