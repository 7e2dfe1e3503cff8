//===- VerifyProgramTest.cpp - What the verifier refuses ------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Schedule/VerifyProgram.h"
#include "PlacedProgram.h"

#include <gtest/gtest.h>

#include <algorithm>

using namespace mlir::fsdp;
using namespace mlir::fsdp::sched;

namespace {

/// A unit that is gathered, used, reduced over two axes and updated in place.
///
///   0 start gather   v0 -> v1          6 start all_reduce after 1   v4 -> v5
///   1 launch early   -> v7             7 wait 2
///   2 wait 0                           8 wait 1
///   3 launch forward v1 -> v2          9 launch update  v5, v0 -> v6
///   4 launch backward v1, v2 -> v3
///   5 start reduce_scatter  v3 -> v4
class VerifyProgram : public testing::Test, public test::PlacedProgram {
protected:
  enum {
    Gather,
    Early,
    Wait0,
    Forward,
    Backward,
    Scatter,
    Reduce,
    Wait2,
    Wait1,
    Update
  };

  VerifyProgram() {
    p.arenaBytes = 80;
    addValue(0, 8, true); // v0: the shard
    addValue(8, 16);      // v1: gathered
    addValue(24, 8);      // v2: activation
    addValue(32, 16);     // v3: gradients
    addValue(48, 8);      // v4: reduced
    addValue(48, 8);      // v5: in place
    addValue(0, 8);       // v6: the new shard
    addValue(56, 8);      // v7
    addStart("all_gather", Queue::AllGather, TransferKind::AllGather, 0, 0, 1);
    addLaunch("early", {}, {7});
    addWait(0);
    addLaunch("forward", {1}, {2});
    addLaunch("backward", {1, 2}, {3});
    addStart("reduce_scatter", Queue::Reduce, TransferKind::ReduceScatter, 1, 3,
             4);
    addStart("all_reduce", Queue::AllReduce, TransferKind::AllReduce, 2, 4, 5);
    p.ops.back().after = {1};
    addWait(2);
    addWait(1);
    addLaunch("update", {5, 0}, {6}, {{1, 0}});
    p.results = {range(6)};
  }

  void erase(int op) { p.ops.erase(p.ops.begin() + op); }
  /// Op @from comes to stand where @to stood.
  void move(int from, int to) {
    auto at = p.ops.begin();
    if (from < to)
      std::rotate(at + from, at + from + 1, at + to + 1);
    else
      std::rotate(at + to, at + from, at + from + 1);
  }
  void accepts() {
    auto fault = verifyProgram(p);
    EXPECT_FALSE(fault) << fault->message;
  }
  void refuses(const std::string &text) {
    auto fault = verifyProgram(p);
    ASSERT_TRUE(fault);
    EXPECT_NE(fault->message.find(text), std::string::npos) << fault->message;
    EXPECT_GE(fault->op, 0);
    EXPECT_LT(size_t(fault->op), p.ops.size());
  }
};

TEST_F(VerifyProgram, AcceptsTheProgram) { accepts(); }

TEST_F(VerifyProgram, AcceptsAnEarlierWait) {
  move(Wait0, Early);
  accepts();
}

TEST_F(VerifyProgram, AcceptsLaunchesThatShareTheWorkspace) {
  p.workspace.offset = 64;
  p.workspace.bytes = 16;
  p.ops[Forward].workspaceBytes = 16;
  p.ops[Update].workspaceBytes = 8;
  accepts();
}

TEST_F(VerifyProgram, RefusesAWorkspaceThatIsTooSmall) {
  p.workspace.offset = 72;
  p.workspace.bytes = 8;
  p.ops[Forward].workspaceBytes = 16;
  refuses("expected a workspace of at least 16 bytes for forward (op 3), got "
          "8");
}

TEST_F(VerifyProgram, RefusesAWorkspaceOnTwoQueues) {
  p.workspace.offset = 64;
  p.workspace.bytes = 16;
  p.ops[Forward].workspaceBytes = 16;
  p.ops[Scatter].workspaceBytes = 16;
  refuses("expected launches on the compute queue alone to use the workspace, "
          "got reduce_scatter (op 5)");
}

TEST_F(VerifyProgram, RefusesValuesInTheWorkspace) {
  // v4 is what a transfer brings while compute goes on.
  p.workspace.offset = 48;
  p.workspace.bytes = 4;
  refuses("expected reduce_scatter (op 5) to touch bytes apart from the "
          "workspace [48, 52), got [48, 56) of");
}

TEST_F(VerifyProgram, AcceptsMemoryThatIsFreeAgain) {
  place(4, 8); // What was gathered is dead: compute has read it.
  place(5, 8);
  accepts();
}

TEST_F(VerifyProgram, AcceptsPartsThatLieInTheirPack) {
  // v8 packs v2, in its place at its beginning, and something of its own.
  addValue(24, 16);
  place(3, 64);
  p.values[8].parts = {range(2)};
  StepOp pack;
  pack.name = "pack";
  pack.kind = StepOpKind::Copy;
  access(pack, {2}, {8});
  p.ops.insert(p.ops.begin() + Backward, pack);
  p.ops[Backward + 1].reads.push_back(range(8));
  accepts();
  // Something else in the part's place is noticed through the pack.
  place(7, 24);
  move(Early, Backward);
  refuses("to read activations (value 2) of forward (op 2) in bytes [24, 32), "
          "got activations (value 7) of early");
}

/// A pack copies its parts one after the other.
TEST_F(VerifyProgram, RefusesAPackOverAPartThatItCopies) {
  addValue(16, 16); // v8: v2, which lies at 24, is its first part
  StepOp pack;
  pack.name = "pack";
  pack.kind = StepOpKind::Copy;
  access(pack, {2}, {8});
  p.ops.insert(p.ops.begin() + Update, pack);
  refuses("expected pack (op 9) to read and write apart, got bytes [24, 32) of "
          "activations (value 2) of forward (op 3) and [16, 32) of activations "
          "(value 8) of pack (op 9)");
}

/// Only what is tied to an operand goes over it.
TEST_F(VerifyProgram, RefusesResultsOverOtherOperands) {
  p.ops[Update].inPlace = {{0, 0}};
  refuses("expected update (op 9) to read and write apart or in place");
  p.ops[Update].inPlace.clear();
  refuses("expected update (op 9) to read and write apart, got");
}

/// Each part of an all_reduce over itself, not over another one.
TEST_F(VerifyProgram, RefusesPartsOverOtherParts) {
  addValue(64, 8); // v8, v9: another part, in place
  addValue(64, 8);
  p.ops[Early].writes.push_back(range(8));
  access(p.ops[Reduce], {8}, {9});
  p.ops[Reduce].inPlace = {{0, 0}, {1, 1}};
  accepts();
  std::swap(p.ops[Reduce].writes[0], p.ops[Reduce].writes[1]);
  refuses("expected all_reduce (op 6) to read and write apart or in place");
}

/// Even where nobody reads one of them: which of the two would be there?
TEST_F(VerifyProgram, RefusesResultsOverOneAnother) {
  addValue(28, 8); // v8: over half of v2
  p.ops[Forward].writes.insert(p.ops[Forward].writes.begin(), range(8));
  refuses("expected forward (op 3) to write each result apart, got bytes [28, "
          "36) of activations (value 8) of forward (op 3) and [24, 32) of "
          "activations (value 2) of forward (op 3)");
}

/// A result without elements lies nowhere.
TEST_F(VerifyProgram, AcceptsEmptyResultsInsideOfOthers) {
  addValue(28, 0); // v8: in the middle of v2
  p.ops[Forward].writes.push_back(range(8));
  accepts();
}

TEST_F(VerifyProgram, RefusesUseBeforeTheWait) {
  move(Wait0, Forward);
  refuses("expected all_gather (op 0) to be over before forward (op 2) reads "
          "bytes [8, 24) of activations (value 1) of all_gather (op 0) that it "
          "writes, got no event between them");
}

TEST_F(VerifyProgram, RefusesOverwritingWhatIsBeingSent) {
  // The gather may still read the shard.
  move(Wait0, Update);
  p.ops[2].reads.clear();
  p.ops[3].reads.clear();
  refuses("that it reads, got no event between them");
}

TEST_F(VerifyProgram, RefusesATransferThatDoesNotComeAfter) {
  p.ops[Reduce].after.clear();
  refuses("expected reduce_scatter (op 5) to be over before all_reduce (op 6) "
          "reads bytes [48, 56)");
}

TEST_F(VerifyProgram, RefusesMemoryThatIsStillInUse) {
  place(2, 8); // forward writes over what backward reads.
  p.ops[Forward].reads.clear();
  refuses(
      "expected backward (op 4) to read activations (value 1) of all_gather "
      "(op 0) in bytes [8, 16), got activations (value 2) of forward (op 3)");
}

TEST_F(VerifyProgram, RefusesMemoryThatATransferStillWrites) {
  place(7, 16); // early runs while the gather does.
  refuses(
      "expected all_gather (op 0) to be over before early (op 1) writes "
      "bytes [16, 24) of activations (value 1) of all_gather (op 0) that it "
      "writes");
}

TEST_F(VerifyProgram, RefusesWorkInPlaceThatIsNone) {
  place(4, 40); // Inside of what the reduce_scatter reads.
  place(5, 40);
  refuses("expected reduce_scatter (op 5) to read and write apart");
}

TEST_F(VerifyProgram, RefusesAccessOutsideOfTheArena) {
  p.arenaBytes = 60;
  refuses("expected bytes inside the arena of 60, got [56, 64)");
}

TEST_F(VerifyProgram, RefusesWhatIsNotWaitedFor) {
  erase(Wait1);
  refuses("expected a wait for event 1 of reduce_scatter (op 5), got none");
}

TEST_F(VerifyProgram, RefusesASecondWait) {
  p.ops.push_back(p.ops[Wait0]);
  refuses(
      "expected one wait for event 0, which brings activations (value 1) of "
      "all_gather (op 0), got a second");
}

TEST_F(VerifyProgram, RefusesAWaitBeforeTheStart) {
  move(Wait0, Gather);
  refuses("expected event 0 to be started before it is waited for");
}

TEST_F(VerifyProgram, RefusesASecondStart) {
  p.ops[Scatter].event = 0;
  refuses(
      "expected event 0, which brings activations (value 1) of all_gather (op "
      "0), to be started once, got a second start, which brings activations "
      "(value 4) of reduce_scatter (op 5)");
}

TEST_F(VerifyProgram, RefusesComingAfterWhatHasNotStarted) {
  p.ops[Gather].after = {1};
  refuses(
      "expected event 1 to be started before all_gather (op 0) comes after");
}

TEST_F(VerifyProgram, RefusesReadingWhatNobodyWrote) {
  erase(Forward);
  refuses(
      "expected backward (op 3) to read activations (value 2), which nobody "
      "writes in bytes [24, 32), got nothing");
}

TEST_F(VerifyProgram, RefusesResultsThatAreNotThere) {
  erase(Update);
  refuses("behind the last op: expected");
}

TEST_F(VerifyProgram, RefusesSwappedOps) {
  std::swap(p.ops[Forward], p.ops[Backward]);
  refuses("to read activations (value 2)");
}

/// Two values that go to the host and come back.
///
///   0 launch make  -> v0, v1     4 wait 0       8 wait 2
///   1 start offload 0  v0 -> v2  5 wait 1       9 wait 3
///   2 start offload 1  v1 -> v3  6 start reload 2  v2 -> v4
///   3 launch other -> v6         7 start reload 3  v3 -> v5
class VerifyCopies : public testing::Test, public test::PlacedProgram {
protected:
  VerifyCopies() {
    p.arenaBytes = 40;
    p.hostBytes = 16;
    addValue(0, 8);     // v0
    addValue(8, 8);     // v1
    addHostValue(0, 8); // v2
    addHostValue(8, 8); // v3
    addValue(16, 8);    // v4
    addValue(24, 8);    // v5
    addValue(32, 8);    // v6
    addLaunch("make", {}, {0, 1});
    addStart("offload", Queue::D2H, TransferKind::Offload, 0, 0, 2);
    addStart("offload", Queue::D2H, TransferKind::Offload, 1, 1, 3);
    addLaunch("other", {}, {6});
    addWait(0);
    addWait(1);
    addStart("reload", Queue::H2D, TransferKind::Reload, 2, 2, 4);
    addStart("reload", Queue::H2D, TransferKind::Reload, 3, 3, 5);
    addWait(2);
    addWait(3);
    p.results = {range(4), range(5), range(6)};
  }
  void refuses(const std::string &message) {
    auto fault = verifyProgram(p);
    ASSERT_TRUE(fault);
    EXPECT_EQ(fault->message, message);
  }
};

TEST_F(VerifyCopies, OffsetsOfTheTwoArenasAreNotCompared) {
  auto fault = verifyProgram(p);
  EXPECT_FALSE(fault) << fault->message;
  EXPECT_EQ(checkProgram(p), "");
}

TEST_F(VerifyCopies, OverlappingHostBuffers) {
  place(3, 0);
  refuses("expected reload (op 6) to read activations (value 2) of offload "
          "(op 1) in bytes [0, 8) of the host, got activations (value 3) of "
          "offload (op 2)");
}

// pytorch/pytorch#87930: what an asynchronous copy took to the host was read
// before the copy was over.
TEST_F(VerifyCopies, AReloadThatComesTooEarly) {
  // Neither waits have told of it nor does it come after the offload.
  std::rotate(p.ops.begin() + 4, p.ops.begin() + 5, p.ops.begin() + 7);
  std::rotate(p.ops.begin() + 4, p.ops.begin() + 5, p.ops.begin() + 6);
  refuses("expected offload (op 1) to be over before reload (op 4) reads bytes "
          "[0, 8) of the host of activations (value 2) of offload (op 1) that "
          "it writes, got no event between them");
  p.ops[4].after = {0};
  auto fault = verifyProgram(p);
  EXPECT_FALSE(fault) << fault->message;
}

TEST_F(VerifyCopies, AnOffloadNobodyWaitsFor) {
  p.ops.erase(p.ops.begin() + 5);
  refuses("expected offload (op 2) to be over before reload (op 6) reads bytes "
          "[8, 16) of the host of activations (value 3) of offload (op 2) that "
          "it writes, got no event between them");
}

TEST_F(VerifyCopies, WhatIsOffloadedIsNotOverwrittenMeanwhile) {
  place(6, 8);
  refuses("expected offload (op 2) to be over before other (op 3) writes bytes "
          "[8, 16) of activations (value 1) of make (op 0) that it reads, "
          "got no event between them");
}

TEST_F(VerifyCopies, OutsideOfTheHostsArena) {
  place(3, 16);
  refuses("expected bytes inside the arena of the host of 16, got [16, 24)");
}

} // namespace
