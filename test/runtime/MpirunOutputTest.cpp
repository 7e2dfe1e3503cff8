//===- MpirunOutputTest.cpp - What mpirun itself says ---------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "channels/mpi/MpirunOutput.h"

#include <gtest/gtest.h>

namespace {

using fsdp::rt::MpirunOutput;

const std::string rule = std::string(74, '-') + "\n";
const std::string killed =
    rule +
    "mpirun noticed that process rank 2 with PID 0 on node vm exited on signal "
    "9 (Killed).\n" +
    rule;
const std::string ended =
    rule +
    "Primary job  terminated normally, but 1 process returned\n"
    "a non-zero exit code. Per user-direction, the job has been "
    "aborted.\n" +
    rule;
const std::string detected =
    rule +
    "mpirun detected that one or more processes exited with non-zero "
    "status, thus causing\nthe job to be terminated.\n" +
    rule;
const std::string aborted =
    rule +
    "MPI_ABORT was invoked on rank 1 in communicator MPI COMMUNICATOR 3 DUP "
    "FROM 0\nwith errorcode 7.\n\n"
    "NOTE: invoking MPI_ABORT causes Open MPI to kill all MPI processes.\n" +
    rule;
const std::string other =
    rule + "There are not enough slots available in the system.\n" + rule;

std::string filter(const std::string &text, size_t step, MpirunOutput &output) {
  std::string shown;
  for (size_t at = 0; at < text.size(); at += step)
    shown += output.feed(text.substr(at, step));
  return shown + output.finish();
}

TEST(MpirunOutput, TakesOutWhatRanksHaveToldBetter) {
  std::string text =
      "error: disk on fire\n" + ended + killed + detected + "last\n" + other;
  for (size_t step : {1u, 2u, 7u, 74u, 75u, 10000u}) {
    MpirunOutput output;
    EXPECT_EQ(filter(text, step, output),
              "error: disk on fire\nlast\n" + other);
    EXPECT_EQ(output.killedRank(), 2);
    EXPECT_EQ(output.killedBy(), 9);
    EXPECT_TRUE(output.hasError());
  }
}

TEST(MpirunOutput, KnowsWhyRanksWereKilled) {
  for (size_t step : {1u, 75u, 10000u}) {
    MpirunOutput output;
    EXPECT_EQ(output.abortCode(), -1);
    EXPECT_EQ(filter("error: disk on fire\n" + aborted + killed, step, output),
              "error: disk on fire\n");
    EXPECT_EQ(output.abortCode(), 7);
  }
}

TEST(MpirunOutput, ShowsProgressAtOnce) {
  MpirunOutput output;
  EXPECT_EQ(output.feed("50%"), "50%");
  EXPECT_EQ(output.feed("\r51%"), "\r51%");
  EXPECT_EQ(output.feed("\n--"), "\n");
  EXPECT_EQ(output.feed("help"), "--help");
  EXPECT_EQ(output.finish(), "");
  EXPECT_EQ(output.killedRank(), -1);
}

TEST(MpirunOutput, KeepsWhatIsCutOff) {
  MpirunOutput output;
  EXPECT_EQ(output.feed(rule + "half a notice"), "");
  EXPECT_EQ(output.finish(), rule + "half a notice");
  MpirunOutput dashes;
  EXPECT_EQ(dashes.feed("---"), "");
  EXPECT_EQ(dashes.finish(), "---");
  MpirunOutput empty;
  EXPECT_EQ(empty.finish(), "");
}

TEST(MpirunOutput, KnowsWhetherARankHasToldAnError) {
  // What mpirun says itself is none, nor is a word within a line.
  std::string text = other + "a warning, no error: it goes on\n" + rule +
                     "error: in a notice\n" + rule;
  for (size_t step : {1u, 10000u}) {
    MpirunOutput output;
    EXPECT_EQ(filter(text, step, output), text);
    EXPECT_FALSE(output.hasError());
    output.feed("error: cut off");
    output.finish();
    EXPECT_TRUE(output.hasError());
  }
}

TEST(MpirunOutput, RemembersTheFirst) {
  std::string second = killed;
  second.replace(second.find("rank 2"), 6, "rank 0");
  MpirunOutput output;
  filter(killed + second, 50, output);
  EXPECT_EQ(output.killedRank(), 2);
}

TEST(MpirunOutput, LinesOfRanksAreNotNotices) {
  // Without the rules around it, it is a rank that speaks.
  std::string text = "process rank 1 exited on signal 9\n";
  MpirunOutput output;
  EXPECT_EQ(filter(text, 5, output), text);
  EXPECT_EQ(output.killedRank(), -1);
}

} // namespace
