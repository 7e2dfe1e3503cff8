//===- PlanStages.h - The stages of the search ------------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Each offers plans of a space to the trials. Errors are those of
// getStepProblem.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_LIB_PLANNING_PLANSTAGES_H
#define FSDP_LIB_PLANNING_PLANSTAGES_H

#include "PlanSpace.h"
#include "PlanTrials.h"

namespace mlir::fsdp::sched {

/// About the lowest level at which the plan of @getPlan fits, or at most
/// @tolerance above; one more than the highest where none is found. (A higher
/// price of memory does not always need less: what is computed again is there
/// at once.)
llvm::Expected<int> findLevel(const PlanTrials &trials,
                              llvm::function_ref<StepPlan(int level)> getPlan,
                              int tolerance = 0);
/// The lowest price at which the step fits repeats. Returns its level.
llvm::Expected<int> repeatToFit(const PlanSpace &space, PlanTrials &trials);
/// What offloads no more than it must, and repeats beside that.
llvm::Error offloadToFit(const PlanSpace &space, PlanTrials &trials);
/// Where nothing that pays fits: whatever the rules let do.
llvm::Error fitAnyhow(const PlanSpace &space, PlanTrials &trials);
/// Offers each of @bases as a way of its own, with values back on the device
/// where there is room for them.
llvm::Error offerOffloading(const PlanSpace &space, PlanTrials &trials,
                            llvm::ArrayRef<StepPlan> bases);

/// Offers each of @bases that fits with as many gathered units as fit; says
/// whether some did not.
llvm::Expected<bool> keepWhatFits(const PlanSpace &space, PlanTrials &trials,
                                  llvm::ArrayRef<StepPlan> bases);
/// Repeats or offloads more than it must, and keeps what that makes room for.
/// @level: what was repeated to fit; 0: nothing was.
llvm::Error tradeForRoom(const PlanSpace &space, PlanTrials &trials, int level);
/// Of the best plans that offload and that keep units or group transfers: takes
/// back what has room beside those.
llvm::Error returnOffloaded(const PlanSpace &space, PlanTrials &trials);
/// Offloads all that can be, and takes back what has room, as offloadToFit does
/// where the step does not fit; then keeps what fits.
llvm::Error offloadForRoom(const PlanSpace &space, PlanTrials &trials);

/// The transfers that happen with @plan, in order, by what can be issued
/// together: of one kind, group and phase.
std::vector<llvm::SmallVector<Id>> getRows(const StepProgram &program,
                                           const StepPlan &plan);
/// What groups of the step as it is gain, about: bytes take as long together as
/// alone, so latencies. (Now and then an order is found beside buckets that is
/// better by more.) 0 where nothing may be grouped.
Time getGainOfGroups(const PlanSpace &space);
/// Parts of a step less than which nothing is grouped for.
constexpr Time kWorthIt = 1000;
/// Each of @bases with neighbours together, in buckets of several sizes.
/// @isShort: not all units are kept for want of memory, so less is kept for
/// buckets, too.
llvm::Error groupTransfers(const PlanSpace &space, PlanTrials &trials,
                           llvm::ArrayRef<StepPlan> bases, bool isShort);

} // namespace mlir::fsdp::sched

#endif // FSDP_LIB_PLANNING_PLANSTAGES_H
