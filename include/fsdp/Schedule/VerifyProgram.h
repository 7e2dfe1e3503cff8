//===- VerifyProgram.h - Is a placed program right? -------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Checks a program with every buffer at its place, whoever made it. It shares
// no code with the scheduler and the planner of the arena.
//
// Whatever speed ops have: a program is right if no two accesses to one byte,
// of which one writes, can happen at once or in either order, and if in the one
// order that is left each op reads the value that it means. The first is
// decided with vector clocks, the second by playing the program once, in the
// order in which it is issued: where nothing races, one play stands for all.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_SCHEDULE_VERIFYPROGRAM_H
#define FSDP_SCHEDULE_VERIFYPROGRAM_H

#include "fsdp/Schedule/StepProgram.h"

#include <optional>

namespace mlir::fsdp::sched {

/// What is wrong with a program, for a person.
struct ProgramFault {
  /// The op at fault (-1: the program, which has none) and, where there is one,
  /// the op that it is at odds with.
  Id op = -1, other = -1;
  std::string message;
};

/// The first fault of @program, in the order of its ops.
///
/// Refused are: an event that is started twice, never waited for, waited for
/// twice or before it is started; `after` of what has not been started; access
/// outside of the arena; an op that reads and writes overlapping bytes without
/// working in place, or writes two results to the same bytes; two accesses that
/// no event orders; a read of bytes that hold another value; an argument or a
/// result that does not hold its value behind the last op.
///
/// That ranks cannot wait for each other in a circle needs no check of its own:
/// all run this one program, so each communicator (a group's on one queue) sees
/// one sequence, and every op only waits for ops that were issued before it.
std::optional<ProgramFault> verifyProgram(const StepProgram &program);

} // namespace mlir::fsdp::sched

#endif // FSDP_SCHEDULE_VERIFYPROGRAM_H
