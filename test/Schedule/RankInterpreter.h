//===- RankInterpreter.h - What ranks make of their programs ----*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_TEST_SCHEDULE_RANKINTERPRETER_H
#define FSDP_TEST_SCHEDULE_RANKINTERPRETER_H

#include "fsdp/Schedule/StepProgram.h"

namespace mlir::fsdp::sched::test {

struct RanksOutcome {
  /// Why the step does not end, or what races; empty: neither.
  std::string fault;
  /// By rank, what lies in the places of the results behind the step.
  std::vector<std::vector<uint64_t>> results;
  bool operator==(const RanksOutcome &o) const {
    return fault == o.fault && results == o.results;
  }
};

/// Runs programs[r] on rank r, all of them together, and looks at @results of
/// each rank's memory.
///
/// It knows what a rank executes: bytes at addresses, never values. What lies
/// in a byte is a number that stands for how it was computed: of which kernel's
/// result it is and of what that kernel has read, which collective brought it
/// and what each of its ranks sent, divided by what. So two runs have equal
/// results where the same was computed, wherever it lay meanwhile.
///
/// Each group of ranks has a communicator on each queue. The n-th collective
/// that a rank gives to it meets the n-th one of all others, and ends when all
/// are there; they must be of one kind, with the same bytes and element types.
/// Runs once with queues that go ahead, once with queues that lag, and once, as
/// ranks without threads for their queues do, with each transfer inside of its
/// start. One program's own races are asked for separately, in every order:
/// without them, and since nothing chooses what it waits for, one order of the
/// queues stands for all.
RanksOutcome runRanks(const std::vector<StepProgram> &programs,
                      const std::vector<ByteRange> &results);

} // namespace mlir::fsdp::sched::test

#endif // FSDP_TEST_SCHEDULE_RANKINTERPRETER_H
