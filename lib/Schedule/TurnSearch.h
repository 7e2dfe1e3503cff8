//===- TurnSearch.h - Whose turn it is on each link -------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_LIB_SCHEDULE_TURNSEARCH_H
#define FSDP_LIB_SCHEDULE_TURNSEARCH_H

#include "Machine.h"

#include <optional>
#include <vector>

namespace mlir::fsdp::sched {

using Turns = std::vector<Turn>;

/// Gives each turn to whoever can begin first; @gathersFirst decides where
/// several can, @early how turns end. Goes on from @s and appends to @turns.
/// False where that ends in a wait for memory that never comes.
bool takeEarliest(Machine &machine, MachineState &s, bool gathersFirst,
                  bool early, Turns &turns);

struct TurnSearchOptions {
  /// More is looked at, and in more ways.
  bool isSmall = false;
  /// Nothing takes less than @target; what takes @below or more is not looked
  /// for.
  Time target = 0, below = 0;
  /// Only those that a rule gives.
  bool rulesOnly = false;
};

/// The best turns that are found, if there are any: a dynamic program over the
/// transfers that have begun.
std::optional<Turns> searchTurns(Machine &machine,
                                 const TurnSearchOptions &options);

} // namespace mlir::fsdp::sched

#endif // FSDP_LIB_SCHEDULE_TURNSEARCH_H
