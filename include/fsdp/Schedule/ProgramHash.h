//===- ProgramHash.h - A program as a short text ----------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_SCHEDULE_PROGRAMHASH_H
#define FSDP_SCHEDULE_PROGRAMHASH_H

#include "fsdp/Schedule/StepProgram.h"

namespace mlir::fsdp::sched {

/// SHA-256, in hexadecimal, of all that decides what a step does and where: ops
/// in their order, events, transfers with groups, bytes, element types and
/// divisors, kernels by name with the code of all, what results start from and
/// every address. What only readers and planners see (values, units, costs) is
/// no part of it.
std::string getProgramHash(const StepProgram &program);
/// The same of launches, starts and waits alone, without addresses: a program
/// has it before and after its buffers are placed.
std::string getIssueHash(const StepProgram &program);

} // namespace mlir::fsdp::sched

#endif // FSDP_SCHEDULE_PROGRAMHASH_H
