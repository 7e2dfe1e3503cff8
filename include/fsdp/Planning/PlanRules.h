//===- PlanRules.h - What the user decided ----------------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_PLANNING_PLANRULES_H
#define FSDP_PLANNING_PLANRULES_H

#include "fsdp/Schedule/ScheduleProblem.h"

#include "llvm/Support/Error.h"

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
  bool group = true;
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

/// As options say it: reshard_after_forward "auto", "true" or "false",
/// recompute and offload "auto", "none" or "full", bucket "auto" or "none".
llvm::Expected<PlanRules> parsePlanRules(llvm::StringRef reshardAfterForward,
                                         llvm::StringRef recompute,
                                         llvm::StringRef offload,
                                         llvm::StringRef bucket);

} // namespace mlir::fsdp::sched

#endif // FSDP_PLANNING_PLANRULES_H
