//===- Planner.h - From a traced step to a plan -----------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What fsdp-plan does, without its command line.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_PLAN_PLANNER_H
#define FSDP_PLAN_PLANNER_H

#include "fsdp/Driver/Frontend.h"
#include "fsdp/Schedule/FSDPSchedules.h"

namespace mlir::fsdp {

/// What --timeline shows.
enum class ShownOrder { InOrder, FSDP, Scheduled, Planned };

FSDP_WORDS(ShownOrder,
           {E::InOrder, getWord(Order::in_order), "one after the other"},
           {E::FSDP, getWord(Order::fsdp), "as FSDP prefetches (--fsdp)"},
           {E::Scheduled, getWord(Order::scheduled),
            "the best order without a plan"},
           {E::Planned, "planned", "the plan (default)"})

struct PlanOptions : StepOptions {
  ShownOrder shownOrder = ShownOrder::Planned;
  /// What kernels get code for, as the option of fsdp-compile. Then their
  /// workspace and scratch memory count, and kernels are as coarse as these
  /// need. Empty: no code is made, and neither counts.
  std::string targets;
  /// Costs products as if they were computed in this type; empty: as traced.
  std::string computeDtype;
  /// Folder that such an executable wrote with --trace: it is shown beside the
  /// simulation of the program that fsdp-compile makes in the run's order.
  /// Empty: none.
  std::string compare;
  /// How FSDP is set up that the plan is compared with (parseFSDPOptions).
  std::string fsdp;
  /// Where to write; empty: nowhere.
  std::string timeline, html;
  /// Print JSON instead of text.
  bool json = false;
  /// Options and the values that they take (parseSweep); empty: one plan.
  std::vector<std::string> sweep;
  /// Also plan what could make the step faster; with `html` in any case.
  bool whatIf = false;
  /// Directory of the tool, to find cluster files from.
  std::string toolDir;
};

/// Plans, and prints the result to stdout. As for compile(), MLIR's diagnostics
/// have been printed when it fails.
llvm::Error plan(const PlanOptions &options);

/// "forward_prefetch=false,backward_prefetch=post,limit_all_gathers=true,
/// all_reduce_stream=false": any of them, the rest as FSDP has it.
llvm::Expected<sched::FSDPOptions> parseFSDPOptions(llvm::StringRef text);

} // namespace mlir::fsdp

FSDP_WORD_OPTION(mlir::fsdp::ShownOrder)

#endif // FSDP_PLAN_PLANNER_H
