//===- AtMostFSDP.h - Bounds beside FSDP's orders ---------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_TEST_SCHEDULE_ATMOSTFSDP_H
#define FSDP_TEST_SCHEDULE_ATMOSTFSDP_H

#include "fsdp/Schedule/FSDPSchedules.h"

#include "gtest/gtest.h"

namespace mlir::fsdp::sched::test {

/// @bound is above none of FSDP's orders of @problem that fit.
inline void expectAtMostFSDPs(Time bound, const ScheduleProblem &problem) {
  for (bool gathersFirst : {false, true}) {
    FSDPOptions options;
    options.gathersFirst = gathersFirst;
    Schedule theirs = scheduleLikeFSDP(problem, options);
    if (theirs.peak <= problem.budget)
      EXPECT_LE(bound, theirs.makespan);
  }
}

} // namespace mlir::fsdp::sched::test

#endif // FSDP_TEST_SCHEDULE_ATMOSTFSDP_H
