//===- LaunchTest.cpp - Who started this process --------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "core/Launch.h"

#include <gtest/gtest.h>

namespace {

using namespace fsdp::rt;

const Environment mpirun = {{"OMPI_COMM_WORLD_RANK", "5"},
                            {"OMPI_COMM_WORLD_SIZE", "8"},
                            {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                            {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"}};
const Environment torchrun = {{"RANK", "3"},
                              {"WORLD_SIZE", "4"},
                              {"LOCAL_RANK", "1"},
                              {"LOCAL_WORLD_SIZE", "2"},
                              {"MASTER_ADDR", "localhost"},
                              {"MASTER_PORT", "29500"}};
const Environment slurm = {
    {"SLURM_PROCID", "6"},          {"SLURM_NTASKS", "10"},
    {"SLURM_STEP_NUM_TASKS", "10"}, {"SLURM_LOCALID", "2"},
    {"SLURM_NODEID", "1"},          {"SLURM_STEP_TASKS_PER_NODE", "4(x2),2"}};

Environment with(Environment environment, const std::string &name,
                 const std::string &value) {
  environment[name] = value;
  return environment;
}
Environment without(Environment environment, const std::string &name) {
  environment.erase(name);
  return environment;
}

void expectRefused(const Environment &environment, const std::string &name) {
  Result<LaunchInfo> info = detectLaunch(environment);
  ASSERT_FALSE(info.isOk());
  EXPECT_NE(info.status().message().find(name), std::string::npos)
      << info.status().message();
  EXPECT_EQ(info.status().code(), Code::Failed);
}

TEST(Launch, NothingIsOneRank) {
  for (const Environment &environment :
       {Environment(), Environment{{"PATH", "/bin"}, {"WORLD_SIZE", "4"}},
        Environment{{"RANK", "1"}}}) {
    Result<LaunchInfo> info = detectLaunch(environment);
    ASSERT_TRUE(info.isOk());
    EXPECT_EQ(info->launcher, Launcher::None);
    EXPECT_EQ(info->rank, 0);
    EXPECT_EQ(info->size, 1);
    EXPECT_EQ(info->localSize, 1);
    EXPECT_FALSE(info->canUseMpi);
  }
}

TEST(Launch, Mpirun) {
  Result<LaunchInfo> info = detectLaunch(mpirun);
  ASSERT_TRUE(info.isOk()) << info.status().message();
  EXPECT_EQ(info->launcher, Launcher::Mpirun);
  EXPECT_EQ(info->rank, 5);
  EXPECT_EQ(info->size, 8);
  EXPECT_EQ(info->localRank, 1);
  EXPECT_EQ(info->localSize, 4);
  EXPECT_TRUE(info->canUseMpi);
}

TEST(Launch, Torchrun) {
  Result<LaunchInfo> info = detectLaunch(torchrun);
  ASSERT_TRUE(info.isOk()) << info.status().message();
  EXPECT_EQ(info->launcher, Launcher::Torchrun);
  EXPECT_EQ(info->rank, 3);
  EXPECT_EQ(info->size, 4);
  EXPECT_EQ(info->localRank, 1);
  EXPECT_EQ(info->localSize, 2);
  EXPECT_FALSE(info->canUseMpi);

  // One process alone is as good as none.
  Environment one = torchrun;
  one["RANK"] = one["LOCAL_RANK"] = "0";
  one["WORLD_SIZE"] = one["LOCAL_WORLD_SIZE"] = "1";
  info = detectLaunch(one);
  ASSERT_TRUE(info.isOk());
  EXPECT_EQ(info->launcher, Launcher::None);
}

TEST(Launch, Slurm) {
  Result<LaunchInfo> info = detectLaunch(slurm);
  ASSERT_TRUE(info.isOk()) << info.status().message();
  EXPECT_EQ(info->launcher, Launcher::Slurm);
  EXPECT_EQ(info->rank, 6);
  EXPECT_EQ(info->size, 10);
  EXPECT_EQ(info->localRank, 2);
  EXPECT_EQ(info->localSize, 4);
  EXPECT_FALSE(info->canUseMpi);

  info = detectLaunch(with(slurm, "PMIX_RANK", "6"));
  ASSERT_TRUE(info.isOk());
  EXPECT_TRUE(info->canUseMpi);

  // Without the step's own count, the job's.
  info = detectLaunch(without(slurm, "SLURM_STEP_NUM_TASKS"));
  ASSERT_TRUE(info.isOk());
  EXPECT_EQ(info->size, 10);
}

TEST(Launch, SlurmNodeLists) {
  auto tasks = [](const std::string &list, const std::string &node) {
    Result<LaunchInfo> info =
        detectLaunch(with(with(with(slurm, "SLURM_STEP_TASKS_PER_NODE", list),
                               "SLURM_NODEID", node),
                          "SLURM_LOCALID", "0"));
    return info.isOk() ? info->localSize : -1;
  };
  EXPECT_EQ(tasks("10", "0"), 10);
  EXPECT_EQ(tasks("4,3,3", "2"), 3);
  EXPECT_EQ(tasks("4(x2),2", "2"), 2);
  for (const char *bad : {"", "4", "x", "4(x", "4(x2", "4(x0),3", "4;3", "4,",
                          "99999999999999999999(x3)", "-1,3"})
    EXPECT_EQ(tasks(bad, "1"), -1) << bad;
  // Also behind the node that is asked for.
  for (const char *bad : {"4(x", "4(x2", "4,x", "4;3", "4,3(", "4,3(x0)"})
    EXPECT_EQ(tasks(bad, "0"), -1) << bad;
}

TEST(Launch, SlurmShellsStartTheirOwn) {
  // A batch script, and an interactive step of one task.
  Result<LaunchInfo> info =
      detectLaunch(without(slurm, "SLURM_STEP_TASKS_PER_NODE"));
  ASSERT_TRUE(info.isOk());
  EXPECT_EQ(info->launcher, Launcher::None);
  Environment one = slurm;
  for (const char *name : {"SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID"})
    one[name] = "0";
  one["SLURM_STEP_NUM_TASKS"] = one["SLURM_STEP_TASKS_PER_NODE"] = "1";
  info = detectLaunch(one);
  ASSERT_TRUE(info.isOk());
  EXPECT_EQ(info->launcher, Launcher::None);
}

TEST(Launch, MpirunInsideSlurmIsMpirun) {
  Environment both = slurm;
  both.insert(mpirun.begin(), mpirun.end());
  both.insert(torchrun.begin(), torchrun.end());
  Result<LaunchInfo> info = detectLaunch(both);
  ASSERT_TRUE(info.isOk());
  EXPECT_EQ(info->launcher, Launcher::Mpirun);
}

TEST(Launch, MissingAndImpossibleVariablesAreNamed) {
  expectRefused(without(mpirun, "OMPI_COMM_WORLD_SIZE"),
                "OMPI_COMM_WORLD_SIZE");
  expectRefused(with(mpirun, "OMPI_COMM_WORLD_RANK", "eight"), "'eight'");
  expectRefused(with(mpirun, "OMPI_COMM_WORLD_RANK", "8"), "below");
  expectRefused(with(mpirun, "OMPI_COMM_WORLD_RANK", "-1"), "'-1'");
  expectRefused(with(mpirun, "OMPI_COMM_WORLD_RANK", "1x"), "'1x'");
  expectRefused(with(mpirun, "OMPI_COMM_WORLD_LOCAL_RANK", "4"), "LOCAL_RANK");
  expectRefused(with(mpirun, "OMPI_COMM_WORLD_LOCAL_SIZE", "9"),
                "expected OMPI_COMM_WORLD_LOCAL_SIZE of at most "
                "OMPI_COMM_WORLD_SIZE=8, got 9");
  expectRefused(with(torchrun, "WORLD_SIZE", ""), "WORLD_SIZE");
  expectRefused(with(torchrun, "WORLD_SIZE", "99999999999"),
                "expected WORLD_SIZE to be an integer from 0 to 2147483647, "
                "got '99999999999'");
  expectRefused(without(torchrun, "LOCAL_WORLD_SIZE"), "LOCAL_WORLD_SIZE");
  expectRefused(without(slurm, "SLURM_LOCALID"), "SLURM_LOCALID");
  expectRefused(with(slurm, "SLURM_LOCALID", "7"), "SLURM_LOCALID");
  expectRefused(with(slurm, "SLURM_NODEID", "3"), "node 3");
  expectRefused(with(slurm, "SLURM_STEP_TASKS_PER_NODE", "4,11"),
                "expected SLURM_STEP_TASKS_PER_NODE of at most "
                "SLURM_STEP_NUM_TASKS=10, got 11");
}

TEST(Launch, ReadsThisProcess) {
  setenv("FSDP_LAUNCH_TEST", "a=b", 1);
  Environment environment = currentEnvironment();
  EXPECT_EQ(environment["FSDP_LAUNCH_TEST"], "a=b");
  unsetenv("FSDP_LAUNCH_TEST");
  EXPECT_STREQ(launcherName(Launcher::Slurm), "srun");
}

} // namespace
