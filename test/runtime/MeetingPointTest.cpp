//===- MeetingPointTest.cpp - Where processes of a job meet ---------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "control/MeetingPoint.h"

#include <gtest/gtest.h>

namespace fsdp::rt {
namespace {

LaunchInfo launchOf(Launcher launcher) {
  LaunchInfo launch;
  launch.launcher = launcher;
  launch.size = 2;
  launch.variables = "VARIABLES";
  return launch;
}

TEST(MeetingPoint, OfTorchrunIsWhatItSays) {
  Result<MeetingPoint> point =
      findMeetingPoint({{"MASTER_ADDR", "gpu01"}, {"MASTER_PORT", "29500"}},
                       launchOf(Launcher::Torchrun));
  ASSERT_TRUE(point.isOk()) << point.status().message();
  EXPECT_EQ(point->host, "gpu01");
  EXPECT_EQ(point->ports, std::vector<int>{29500});
}

TEST(MeetingPoint, AnAgentThatListensKeepsItsPort) {
  Environment environment = {{"MASTER_ADDR", "gpu01"},
                             {"MASTER_PORT", "29500"},
                             {"TORCHELASTIC_USE_AGENT_STORE", "True"},
                             {"TORCHELASTIC_RESTART_COUNT", "0"}};
  LaunchInfo launch = launchOf(Launcher::Torchrun);
  Result<MeetingPoint> point = findMeetingPoint(environment, launch);
  ASSERT_TRUE(point.isOk()) << point.status().message();
  ASSERT_GT(point->ports.size(), 1u);
  EXPECT_EQ(point->ports.front(), 29501);
  // Processes of an attempt before may still be there.
  environment["TORCHELASTIC_RESTART_COUNT"] = "1";
  EXPECT_NE(findMeetingPoint(environment, launch)->job, point->job);
  environment["MASTER_PORT"] = "65535";
  EXPECT_FALSE(findMeetingPoint(environment, launch).isOk());
}

TEST(MeetingPoint, OfSrunFollowsFromTheStep) {
  Environment environment = {{"SLURM_STEP_NODELIST", "gpu[03-05,7],login1"},
                             {"SLURM_JOB_ID", "17"},
                             {"SLURM_STEP_ID", "0"}};
  LaunchInfo launch = launchOf(Launcher::Slurm);
  Result<MeetingPoint> point = findMeetingPoint(environment, launch);
  ASSERT_TRUE(point.isOk()) << point.status().message();
  EXPECT_EQ(point->host, "gpu03");
  EXPECT_GT(point->ports.size(), 1u);
  environment["SLURM_STEP_ID"] = "1";
  Result<MeetingPoint> other = findMeetingPoint(environment, launch);
  EXPECT_NE(other->job, point->job);
  EXPECT_NE(other->ports, point->ports);
  environment["MASTER_ADDR"] = "10.0.0.1";
  environment["MASTER_PORT"] = "4711";
  point = findMeetingPoint(environment, launch);
  EXPECT_EQ(point->host, "10.0.0.1");
  EXPECT_EQ(point->ports, std::vector<int>{4711});
  // Another step of the job, at the same port.
  environment["SLURM_STEP_ID"] = "0";
  EXPECT_NE(findMeetingPoint(environment, launch)->job, point->job);
  environment["SLURM_STEP_ID"] = "1";
  EXPECT_EQ(findMeetingPoint(environment, launch)->job, point->job);
}

TEST(MeetingPoint, RunsOfTorchrunAreJobs) {
  Environment environment = {{"MASTER_ADDR", "gpu01"},
                             {"MASTER_PORT", "29500"},
                             {"TORCHELASTIC_RUN_ID", "one"},
                             {"SLURM_JOB_ID", "17"},
                             {"SLURM_STEP_ID", "0"}};
  LaunchInfo launch = launchOf(Launcher::Torchrun);
  std::string job = findMeetingPoint(environment, launch)->job;
  environment["TORCHELASTIC_RUN_ID"] = "two";
  EXPECT_NE(findMeetingPoint(environment, launch)->job, job);
  // Each host's torchrun may be a step of its own.
  environment["TORCHELASTIC_RUN_ID"] = "one";
  environment["SLURM_STEP_ID"] = "1";
  EXPECT_EQ(findMeetingPoint(environment, launch)->job, job);
}

TEST(MeetingPoint, AListenerOfTheLauncherIsRankZeros) {
  Environment environment = {{"MASTER_ADDR", "127.0.0.1"},
                             {"MASTER_PORT", "29500"},
                             {listenerVariable, "7"}};
  LaunchInfo launch = launchOf(Launcher::Torchrun);
  EXPECT_EQ(findMeetingPoint(environment, launch)->listener, 7);
  launch.rank = 1;
  EXPECT_EQ(findMeetingPoint(environment, launch)->listener, -1);
  launch.rank = 0;
  for (const char *bad : {"x", "-1", "7 "}) {
    environment[listenerVariable] = bad;
    EXPECT_NE(findMeetingPoint(environment, launch)
                  .status()
                  .message()
                  .find("expected FSDP_RENDEZVOUS_FD to be the number of a "
                        "descriptor, got '" +
                        std::string(bad) + "'"),
              std::string::npos);
  }
}

TEST(MeetingPoint, FirstHostOfSlurmsLists) {
  EXPECT_EQ(firstSlurmHost("gpu03"), "gpu03");
  EXPECT_EQ(firstSlurmHost("a,b"), "a");
  EXPECT_EQ(firstSlurmHost("gpu[7,9-11]"), "gpu7");
  EXPECT_EQ(firstSlurmHost("rack[1-2]-node"), "rack1-node");
  EXPECT_EQ(firstSlurmHost("rack[1-2]n,other"), "rack1n");
  EXPECT_EQ(firstSlurmHost("a,b[01-03]"), "a");
  EXPECT_EQ(firstSlurmHost("b[01-03],a"), "b01");
  EXPECT_EQ(firstSlurmHost("rack[1-2]node[3-4]"), "rack1node3");
  EXPECT_EQ(firstSlurmHost("r[08,1-2]n[007]-ib,other[1-2]"), "r08n007-ib");
  for (const char *bad : {"gpu[7", "gpu7]", "gpu[]", "gpu[-3]", "gpu[,3]",
                          "gpu[1[2]]", "rack[1-2]n["})
    EXPECT_EQ(firstSlurmHost(bad), "") << bad;
  EXPECT_EQ(firstSlurmHost(""), "");
}

TEST(MeetingPoint, WhatIsNotThereIsToldWhatToSet) {
  for (const Environment &environment :
       {Environment(), Environment{{"MASTER_ADDR", "gpu01"}},
        Environment{{"MASTER_PORT", "29500"}}})
    EXPECT_NE(findMeetingPoint(environment, launchOf(Launcher::Torchrun))
                  .status()
                  .message()
                  .find("expected MASTER_ADDR, the host of rank 0, and "
                        "MASTER_PORT, a free port there"),
              std::string::npos);
  for (const char *port : {"x", "0", "65536", "-1", "1x"})
    EXPECT_NE(
        findMeetingPoint({{"MASTER_ADDR", "gpu01"}, {"MASTER_PORT", port}},
                         launchOf(Launcher::Torchrun))
            .status()
            .message()
            .find("expected MASTER_PORT to be a port"),
        std::string::npos);
}

} // namespace
} // namespace fsdp::rt
