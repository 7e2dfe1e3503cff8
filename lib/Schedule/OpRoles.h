//===- OpRoles.h - Which ops have a place in the order ----------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_LIB_SCHEDULE_OPROLES_H
#define FSDP_LIB_SCHEDULE_OPROLES_H

#include "fsdp/Schedule/StepProblem.h"

#include "llvm/ADT/SmallVector.h"

namespace mlir::fsdp::sched {

/// Who makes and who reads each value of a program.
struct Accesses {
  explicit Accesses(const StepProgram &program);

  /// The op that makes it; -1: an argument.
  std::vector<Id> maker;
  std::vector<llvm::SmallVector<Id, 2>> readers;
};

/// What the order has to do with each op: the spine keeps its order, a cast
/// goes with its gather, a tail comes after the reductions that it reads, the
/// epilogue after all else.
std::vector<OpRole> getOpRoles(const StepProgram &program,
                               const Accesses &accesses);

/// The ops of the spine that go before all others: compute that tails or the
/// epilogue read and that needs arguments alone (what an optimizer makes of its
/// step counter). At its place in L2, after backward, all tails and their
/// reductions would wait for it.
std::vector<bool> findPrelude(const StepProgram &program,
                              const Accesses &accesses,
                              const std::vector<OpRole> &roles);

} // namespace mlir::fsdp::sched

#endif // FSDP_LIB_SCHEDULE_OPROLES_H
