//===- Interpreter.h - Every way a small program can run --------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_TEST_SCHEDULE_INTERPRETER_H
#define FSDP_TEST_SCHEDULE_INTERPRETER_H

#include "fsdp/Schedule/StepProgram.h"

namespace mlir::fsdp::sched::test {

/// Runs @program in every order that its queues, waits and `after` allow, an
/// op's begin and its end being two moments, on a memory that knows which value
/// each of its bytes holds. Returns what went wrong in some order, or an empty
/// string.
///
/// The reference that the verifier is compared with: it knows no clocks, only
/// what happens next, granule by granule. Ranges are multiples of kGranule
/// bytes. A pack leaves alone the parts that lie in their place, which stay
/// what they were; who reads the pack finds them there.
std::string runEveryWay(const StepProgram &program);

/// The same, whatever values are: rules of events and places, and two ops that
/// touch one place at once, one of them writing.
std::string findRace(const StepProgram &program);

} // namespace mlir::fsdp::sched::test

#endif // FSDP_TEST_SCHEDULE_INTERPRETER_H
