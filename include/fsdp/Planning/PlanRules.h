//===- PlanRules.h - What the user decided ----------------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_PLANNING_PLANRULES_H
#define FSDP_PLANNING_PLANRULES_H

#include "fsdp/Schedule/ScheduleProblem.h"
#include "fsdp/Support/OptionWords.h"

#include <optional>
#include <string>

namespace mlir::fsdp::sched {

struct PlanDecision {
  enum Kind { Keep, Recompute, Offload, Group };
  Kind kind = Keep;
  /// Op of the program that was planned.
  Id op = -1;
  bool taken = false;
  /// In words, with times and bytes.
  std::string why;
};

/// What the user has decided already.
struct PlanRules {
  enum class Keep { Auto, Never, Always } keep = Keep::Auto;
  /// Full: everything that saves memory, in every stretch of forward.
  enum class Recompute { Auto, Never, Full } recompute = Recompute::Auto;
  /// Full: everything that can be and is not computed again.
  enum class Offload { Auto, Never, Full } offload = Offload::Auto;
  enum class Group { Auto, Never } group = Group::Auto;
  /// What the search leaves alone although no rule decides it, because what it
  /// found with it does not fit when it is packed.
  std::optional<PlanDecision::Kind> leftOut;

  bool mayKeep() const {
    return keep == Keep::Auto && leftOut != PlanDecision::Keep;
  }
  bool mayRecompute() const {
    return recompute == Recompute::Auto && leftOut != PlanDecision::Recompute;
  }
  bool mayOffload() const {
    return offload == Offload::Auto && leftOut != PlanDecision::Offload;
  }
};

} // namespace mlir::fsdp::sched

namespace mlir::fsdp {
FSDP_WORDS(sched::PlanRules::Keep,
           {E::Auto, "auto", "kept where the step gets faster (default)"},
           {E::Never, "true", "freed, and gathered again"},
           {E::Always, "false", "kept"})

/// FSDP2's argument, which is of a module, takes a number, too.
template <>
inline std::string listWords<sched::PlanRules::Keep>() {
  return "auto, true or false (a number of ranks is of units: --unit "
         "PATTERN:reshard-after-forward=RANKS)";
}

FSDP_WORDS(sched::PlanRules::Recompute,
           {E::Auto, "auto", "what makes the step fit, or pays (default)"},
           {E::Never, "none", "nothing"},
           {E::Full, "full", "all that saves memory"})

FSDP_WORDS(sched::PlanRules::Offload,
           {E::Auto, "auto", "those that make the step fit, or pay (default)"},
           {E::Never, "none", "none"},
           {E::Full, "full", "all that can be and are not computed again"})

FSDP_WORDS(sched::PlanRules::Group,
           {E::Auto, "auto", "those with which the step is faster (default)"},
           {E::Never, "none", "none"})
} // namespace mlir::fsdp

#endif // FSDP_PLANNING_PLANRULES_H
