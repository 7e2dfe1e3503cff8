//===- SecondaryShardTest.cpp - Units that are gathered in two stages -----===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RandomSteps.h"
#include "fsdp/Planning/StepPlan.h"

#include "llvm/ADT/STLExtras.h"
#include "gtest/gtest.h"

using namespace mlir::fsdp;
using namespace mlir::fsdp::sched;
using namespace mlir::fsdp::sched::test;

namespace {
/// Of ops named @name.
std::vector<Id> findAll(const StepProgram &program, llvm::StringRef name) {
  std::vector<Id> ops;
  for (auto [i, op] : llvm::enumerate(program.ops))
    if (op.name == name)
      ops.push_back(i);
  return ops;
}

/// Backward gathers what another gather brought in forward: that is gathered
/// once, and a whole that is kept makes the second gather go alone.
TEST(SecondaryShard, theWholeMayBeKept) {
  ProgramBuilder b;
  Id p = b.argument(8), x = b.argument(8), y = b.value(8), z = b.value(8);
  Id cast = b.value(8), second = b.value(16), w = b.value(32),
     again = b.value(32);
  b.launch("cast", {p}, {cast});
  b.gather(cast, second);
  b.gather(second, w);
  b.launch("f", {x, w}, {y});
  b.launch("g", {y, w}, {z});
  b.gather(second, again, true);
  b.launch("b", {y, z, again}, {b.over(x)}, true);
  PlanChoices choices = getPlanChoices(b.program);
  std::vector<Id> gathers = findAll(b.program, "all_gather");
  ASSERT_EQ(gathers.size(), 3u);
  EXPECT_EQ(choices.earlierGather[gathers[0]], -1);
  EXPECT_EQ(choices.earlierGather[gathers[2]], gathers[1]);
  // What reads a parameter is computed again of the later gather.
  EXPECT_TRUE(choices.canRecompute[findAll(b.program, "g")[0]]);
  for (bool keeps : {false, true}) {
    StepPlan plan(b.program);
    plan.keep[gathers[2]] = keeps;
    plan.recompute[z] = true;
    ASSERT_EQ(checkPlan(b.program, plan), "");
    StepProgram changed = applyPlan(b.program, plan);
    EXPECT_EQ(checkProgram(changed), "");
    EXPECT_EQ(findAll(changed, "all_gather").size(), keeps ? 2u : 3u);
    EXPECT_EQ(findAll(changed, "g").size(), 1u);
  }
}
} // namespace
