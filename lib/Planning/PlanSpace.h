//===- PlanSpace.h - What plans are chosen from -----------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_LIB_PLANNING_PLANSPACE_H
#define FSDP_LIB_PLANNING_PLANSPACE_H

#include "fsdp/Planning/Offloading.h"
#include "fsdp/Planning/PlanSearch.h"
#include "fsdp/Planning/Recomputation.h"

#include <tuple>

namespace mlir::fsdp::sched {

/// Kind, group of ranks and phase: what transfers have in common that may be
/// issued together.
using TransferRow = std::tuple<int, Id, bool>;
TransferRow getRow(const StepProgram &program, const StepOp &start);
/// What a gather brings.
int64_t getGatheredBytes(const StepProgram &program, Id gather);
/// What @plan keeps on the host.
int64_t getHostBytes(const StepProgram &program, const StepPlan &plan);

/// What may be decided about a step, and what it costs. Each plan made here has
/// what is given and what the rules ask.
struct PlanSpace {
  PlanSpace(const StepProgram &program, const CostModel &cost,
            llvm::ArrayRef<GroupPlacement> placements, bool hasHost,
            const PlanRules &rules, const StepPlan &given);

  /// Whether the search may put values on the host that no rule puts there.
  bool mayOffload() const { return rules.mayOffload() && hasHost; }

  /// Whether the search may group anything: where groups are given, they are
  /// all.
  bool mayGroup() const {
    return rules.group == PlanRules::Group::Auto &&
           llvm::all_of(given.group, [](Id group) { return group < 0; });
  }

  /// Price levels: steps of a sixth of a doubling, from 10^-2 picoseconds for a
  /// byte (a hundred times the speed of any memory) to 10^6 (a megabyte a
  /// second). At level 0 a byte costs nothing.
  static constexpr int kMostLevel = 160;

  /// The plan that repeats what pays at a price level.
  StepPlan getRepeating(int level) const;
  /// The plan that takes the cheapest way for each value where time on the
  /// links costs @linkPrice of compute's, and a byte of memory as much as the
  /// level says; @eighths of all stretches offload.
  StepPlan getOffloading(double linkPrice, int level, int eighths = 8,
                         bool mayRecompute = true) const;
  /// The level at which all that pays is offloaded or repeated.
  int getLevel(double linkPrice) const;
  /// The lowest at which anything is repeated.
  int getLowestLevel() const;
  /// @plan with all on the host that can be there, paying or not.
  StepPlan withAllOffloaded(StepPlan plan) const;
  /// Gathers that could be kept: most time for a byte first; of equal ones that
  /// which is kept for the shortest time.
  std::vector<Id> getKeepOrder() const;

  const StepProgram &program;
  bool hasHost;
  const PlanRules &rules;
  const StepPlan &given;
  TimedProgram times;
  PlanChoices choices;
  /// By transfer: its group begins behind this op; -1: anywhere.
  std::vector<Id> groupFloor;
  Recomputation recomputation;
  OffloadOffers offers;

private:
  bool mayKeep(Id op) const;
  StepPlan complete(StepPlan plan) const;
  void offloadAll(StepPlan &plan, const std::vector<bool> &isRead) const;
};

} // namespace mlir::fsdp::sched

#endif // FSDP_LIB_PLANNING_PLANSPACE_H
