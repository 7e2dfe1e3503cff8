//===- StepProgramTest.cpp - Rules and dependencies of programs -----------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "SmallPrograms.h"

#include "gtest/gtest.h"

using namespace mlir::fsdp;
using namespace mlir::fsdp::sched;
using namespace mlir::fsdp::sched::test;

static Id find(const StepProgram &program, llvm::StringRef name) {
  for (size_t i = 0; i != program.ops.size(); ++i)
    if (program.ops[i].name == name)
      return i;
  ADD_FAILURE() << "no op " << name.str();
  return -1;
}

static void move(StepProgram &program, Id from, Id to) {
  StepOp op = program.ops[from];
  program.ops.erase(program.ops.begin() + from);
  program.ops.insert(program.ops.begin() + to, op);
}

TEST(StepProgram, twoUnitsFollowTheRules) {
  EXPECT_EQ(checkProgram(makeTwoUnitStep()), "");
  EXPECT_EQ(findBrokenDependency(makeTwoUnitStep(), makeTwoUnitStep()), "");
}

TEST(StepProgram, rulesAreChecked) {
  struct Case {
    void (*change)(StepProgram &);
    const char *error;
  } cases[] = {
      {[](StepProgram &p) { p.ops[0].queue = Queue::Compute; },
       "op 0: expected starts, and nothing else, away from compute"},
      {[](StepProgram &p) { p.ops[2].event = 9; },
       "op 2: expected an event on starts and waits only"},
      {[](StepProgram &p) { p.ops.erase(p.ops.begin() + 1); },
       "event 0: expected a wait"},
      {[](StepProgram &p) { std::swap(p.ops[0], p.ops[1]); },
       "op 0: expected event 0 started before it and waited for once"},
      {[](StepProgram &p) { p.ops.insert(p.ops.begin() + 2, p.ops[1]); },
       "op 2: expected event 0 started before it and waited for once"},
      {[](StepProgram &p) { p.ops.insert(p.ops.begin() + 1, p.ops[0]); },
       "op 1: expected an event of its own, got 0"},
      {[](StepProgram &p) { p.ops[0].after = {3}; },
       "op 0: expected event 3 started before it"},
      {[](StepProgram &p) { p.ops[2].after = {0}; },
       "op 2: expected events to come after on starts only"},
      {[](StepProgram &p) { p.ops[2].kernel = -1; },
       "op 2: expected a kernel on launches only"},
      {[](StepProgram &p) { p.ops[2].unit = 1; },
       "op 2: expected a unit below 1, got 1"},
      {[](StepProgram &p) { p.ops[2].reads[0].bytes += 1; },
       "op 2: expected bytes inside of value 3"},
      {[](StepProgram &p) { p.values[0].bytes += 1; },
       "value 0: expected it inside of buffer 0"},
      {[](StepProgram &p) {
         p.values[0].parts = {{1, 90, 20}};
       },
       "value 0: expected parts of other values without parts inside of it, "
       "by offset and apart"},
      {[](StepProgram &p) {
         // Each a part of the other.
         p.values[0].parts = {{1, p.values[0].offset, 0}};
         p.values[1].parts = {{0, p.values[1].offset, 0}};
       },
       "value 0: expected parts of other values without parts inside of it, "
       "by offset and apart"},
      {[](StepProgram &p) { p.transfers[0].group = 1; },
       "transfer 0: expected a group of a collective, got 1"},
      {[](StepProgram &p) { p.transfers[0].kind = TransferKind::Offload; },
       "transfer 0: expected no group of a copy, got 0"},
      {[](StepProgram &p) { p.buffers[p.values[3].buffer].isHost = true; },
       "op 2: value 3: expected it in the device's memory"},
      {[](StepProgram &p) {
         p.transfers[0] = {TransferKind::Offload, {4}};
         p.ops[0].queue = Queue::D2H;
       },
       "op 0: value 4: expected it in the host's memory"},
      {[](StepProgram &p) {
         p.transfers[0] = {TransferKind::Offload, {4}};
       },
       "op 0: expected a queue of offload, got all_gather"},
  };
  for (const Case &c : cases) {
    StepProgram program = makeTwoUnitStep();
    c.change(program);
    EXPECT_EQ(checkProgram(program), c.error);
  }
}

TEST(StepProgram, readBeforeItsWaitIsFound) {
  StepProgram original = makeTwoUnitStep(), changed = original;
  move(changed, find(changed, "wait"), find(changed, "f0"));
  EXPECT_EQ(findBrokenDependency(original, changed),
            "expected 'all_gather' (op 0) before 'f0' (op 2)");
}

TEST(StepProgram, updateBeforeTheGatherOfTheOldShardIsFound) {
  StepProgram original = makeTwoUnitStep(), changed = original;
  // The second gather of unit 0, behind the update of what it gathers.
  Id gather = find(changed, "b0") - 2, update = find(changed, "update0");
  move(changed, gather, update);
  std::string error = findBrokenDependency(original, changed);
  EXPECT_NE(error, "");
  EXPECT_EQ(error.find("expected 'all_gather'"), 0u) << error;
}

TEST(StepProgram, aStartKnowsTheComputeBeforeIt) {
  StepProgram original = makeTwoUnitStep(), changed = original;
  // The scatter of the last gradient may not start before that is made.
  Id scatter = find(changed, "b0") + 1;
  move(changed, scatter, find(changed, "b0"));
  EXPECT_EQ(findBrokenDependency(original, changed),
            "expected 'b0' (op 15) before 'reduce_scatter' (op 16)");
}

TEST(StepProgram, anEventInAfterOrdersStarts) {
  ProgramBuilder b;
  Id p = b.argument(100), g = b.value(400), s = b.value(100);
  b.launch("b", {p}, {g});
  b.scatter(g, s);
  b.reduce(s, b.over(s));
  StepProgram original = b.program, changed = original;
  // Both waits at the end: only `after` can tell the second of the first.
  move(changed, 2, 4);
  std::string error =
      "expected 'reduce_scatter' (op 1) before 'all_reduce' (op 3)";
  EXPECT_EQ(findBrokenDependency(original, changed), error);
  changed.ops[2].after = {0};
  EXPECT_EQ(findBrokenDependency(original, changed), "");
}
