//===- LaunchTest.cpp - Who started this process --------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "control/Launch.h"

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
        Environment{{"RANK", ""}, {"PMI_RANK", ""}},
        Environment{{"MASTER_ADDR", "localhost"}}}) {
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
  EXPECT_TRUE(info->hasLocalRank && info->hasLocalSize);
  EXPECT_FALSE(info->canUseMpi);

  // Who sets variables by hand may not know hosts.
  info = detectLaunch(without(torchrun, "LOCAL_WORLD_SIZE"));
  ASSERT_TRUE(info.isOk());
  EXPECT_TRUE(info->hasLocalRank);
  EXPECT_FALSE(info->hasLocalSize);

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
  Result<LaunchInfo> info = detectLaunch({{"SLURM_PROCID", "0"},
                                          {"SLURM_NTASKS", "10"},
                                          {"SLURM_LOCALID", "0"},
                                          {"SLURM_NODEID", "0"}});
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

/// One environment, and what is made of it: a launcher, rank and size, or the
/// words of a refusal.
struct Case {
  const char *name;
  Environment environment;
  Launcher launcher;
  int rank, size;
  std::vector<const char *> refusal;
};

Environment together(Environment a, const Environment &b) {
  a.insert(b.begin(), b.end());
  return a;
}

Environment places(const std::string &rankName, int rank,
                   const std::string &sizeName, int size) {
  return {{rankName, std::to_string(rank)}, {sizeName, std::to_string(size)}};
}

Environment slurmStep(int rank, int size) {
  std::string r = std::to_string(rank), n = std::to_string(size);
  return {{"SLURM_PROCID", r},         {"SLURM_NTASKS", "16"},
          {"SLURM_STEP_NUM_TASKS", n}, {"SLURM_LOCALID", r},
          {"SLURM_NODEID", "0"},       {"SLURM_STEP_TASKS_PER_NODE", n}};
}

TEST(Launch, ManyEnvironments) {
  using L = Launcher;
  const char *once = "start the program once, without these variables, for "
                     "all of its ranks on this host, with --backend tcp under "
                     "torchrun or srun, or with mpirun";
  const Environment pmi = places("PMI_RANK", 1, "PMI_SIZE", 2);
  const Environment mv2 =
      places("MV2_COMM_WORLD_RANK", 1, "MV2_COMM_WORLD_SIZE", 2);
  const Environment torch = places("RANK", 1, "WORLD_SIZE", 2);
  const std::vector<Case> cases = {
      // Each launcher.
      {"hydra", pmi, L::Pmi, 1, 2, {}},
      {"hydra with places on the host",
       together(pmi, {{"MPI_LOCALRANKID", "1"}, {"MPI_LOCALNRANKS", "2"}}),
       L::Pmi,
       1,
       2,
       {}},
      {"one process of hydra",
       places("PMI_RANK", 0, "PMI_SIZE", 1),
       L::None,
       0,
       1,
       {}},
      {"mvapich", mv2, L::Mvapich, 1, 2, {}},
      {"one process of mvapich",
       places("MV2_COMM_WORLD_RANK", 0, "MV2_COMM_WORLD_SIZE", 1),
       L::None,
       0,
       1,
       {}},
      {"torch.distributed by hand", torch, L::Torchrun, 1, 2, {}},
      {"one process by hand",
       places("RANK", 0, "WORLD_SIZE", 1),
       L::None,
       0,
       1,
       {}},
      {"several hosts of torchrun",
       together(places("RANK", 9, "WORLD_SIZE", 16),
                places("LOCAL_RANK", 1, "LOCAL_WORLD_SIZE", 8)),
       L::Torchrun,
       9,
       16,
       {}},
      {"without LOCAL_WORLD_SIZE",
       without(torchrun, "LOCAL_WORLD_SIZE"),
       L::Torchrun,
       3,
       4,
       {}},
      {"prun of PRRTE",
       {{"PMIX_RANK", "0"}, {"PMIX_NAMESPACE", "x"}},
       L::None,
       0,
       1,
       {"number of processes beside PMIX_RANK=0", once}},
      {"srun of a single task", slurmStep(0, 1), L::None, 0, 1, {}},
      {"the same with PMIx",
       with(slurmStep(0, 1), "PMIX_RANK", "0"),
       L::None,
       0,
       1,
       {}},
      {"a batch script",
       {{"SLURM_PROCID", "0"},
        {"SLURM_NTASKS", "4"},
        {"SLURM_LOCALID", "0"},
        {"SLURM_NODEID", "0"},
        {"SLURM_TASKS_PER_NODE", "4"}},
       L::None,
       0,
       1,
       {}},
      {"salloc",
       {{"SLURM_NTASKS", "4"}, {"SLURM_JOB_ID", "7"}},
       L::None,
       0,
       1,
       {}},
      // Half of the variables.
      {"a rank alone",
       {{"RANK", "1"}},
       L::None,
       0,
       1,
       {"expected WORLD_SIZE", "(of RANK=1)", once}},
      {"rank 0 alone",
       {{"RANK", "0"}},
       L::None,
       0,
       1,
       {"expected WORLD_SIZE", "(of RANK=0)", once}},
      {"a local rank alone",
       {{"LOCAL_RANK", "1"}},
       L::None,
       0,
       1,
       {"expected RANK", "(of LOCAL_RANK=1)", once}},
      {"no rank",
       {{"WORLD_SIZE", "2"}, {"MASTER_ADDR", "a"}},
       L::None,
       0,
       1,
       {"expected RANK", "WORLD_SIZE=2", once}},
      {"no size",
       {{"PMI_RANK", "1"}},
       L::None,
       0,
       1,
       {"expected PMI_SIZE", "(of PMI_RANK=1)", once}},
      {"a size alone",
       {{"PMI_SIZE", "2"}},
       L::None,
       0,
       1,
       {"expected PMI_RANK", "(of PMI_SIZE=2)", once}},
      {"mpirun's size alone",
       {{"OMPI_COMM_WORLD_SIZE", "2"}},
       L::None,
       0,
       1,
       {"expected OMPI_COMM_WORLD_RANK", once}},
      {"a later task without its step",
       {{"SLURM_PROCID", "1"}, {"SLURM_NTASKS", "2"}},
       L::None,
       0,
       1,
       {"expected SLURM_LOCALID", "SLURM_PROCID=1, SLURM_NTASKS=2", "srun"}},
      // Impossible ones.
      {"rank 2 of 2",
       places("RANK", 2, "WORLD_SIZE", 2),
       L::None,
       0,
       1,
       {"expected RANK below WORLD_SIZE=2, got 2", once}},
      {"rank 0 of 0",
       places("RANK", 0, "WORLD_SIZE", 0),
       L::None,
       0,
       1,
       {"expected RANK below WORLD_SIZE=0, got 0", once}},
      {"no number",
       {{"RANK", "one"}, {"WORLD_SIZE", "2"}},
       L::None,
       0,
       1,
       {"got 'one'", "RANK=one, WORLD_SIZE=2", once}},
      {"a negative rank",
       {{"RANK", "-1"}, {"WORLD_SIZE", "2"}},
       L::None,
       0,
       1,
       {"got '-1'", once}},
      {"a huge size",
       {{"PMI_RANK", "1"}, {"PMI_SIZE", "4294967298"}},
       L::None,
       0,
       1,
       {"got '4294967298'", once}},
      {"more here than there are",
       with(torchrun, "LOCAL_WORLD_SIZE", "8"),
       L::None,
       0,
       1,
       {"LOCAL_WORLD_SIZE of at most WORLD_SIZE=4, got 8", once}},
      {"a place beyond the host's",
       with(torchrun, "LOCAL_RANK", "2"),
       L::None,
       0,
       1,
       {"expected LOCAL_RANK below LOCAL_WORLD_SIZE=2, got 2", once}},
      // Several launchers.
      {"mpirun and variables made from its own",
       together(mpirun, places("RANK", 5, "WORLD_SIZE", 8)),
       L::Mpirun,
       5,
       8,
       {}},
      {"mpirun and others'",
       together(mpirun, torch),
       L::None,
       0,
       1,
       {"expected launchers to agree", "OMPI_COMM_WORLD_RANK=5",
        "RANK=1, WORLD_SIZE=2 of torchrun", once}},
      {"mpirun in a container of one",
       together(mpirun, places("RANK", 0, "WORLD_SIZE", 1)),
       L::Mpirun,
       5,
       8,
       {}},
      {"one process of mpirun in each of many",
       together(places("OMPI_COMM_WORLD_RANK", 0, "OMPI_COMM_WORLD_SIZE", 1),
                together(places("OMPI_COMM_WORLD_LOCAL_RANK", 0,
                                "OMPI_COMM_WORLD_LOCAL_SIZE", 1),
                         torch)),
       L::Torchrun,
       1,
       2,
       {}},
      {"srun for mpirun's daemons",
       together(slurm, mpirun),
       L::Mpirun,
       5,
       8,
       {}},
      {"srun --mpi=pmi2 for mpirun's daemons",
       together(together(slurmStep(1, 2), pmi), mpirun),
       L::Mpirun,
       5,
       8,
       {}},
      {"srun and variables made from its own",
       together(slurmStep(1, 2), torch),
       L::Slurm,
       1,
       2,
       {}},
      {"srun --mpi=pmi2", together(slurmStep(1, 2), pmi), L::Slurm, 1, 2, {}},
      {"torchrun in each task of srun",
       together(slurmStep(1, 2), places("RANK", 3, "WORLD_SIZE", 8)),
       L::Torchrun,
       3,
       8,
       {}},
      {"torchrun in a single task of srun",
       together(slurmStep(0, 1), torch),
       L::Torchrun,
       1,
       2,
       {}},
      {"hydra in a batch script",
       together({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}}, pmi),
       L::Pmi,
       1,
       2,
       {}},
      {"hydra and others'",
       together(pmi, places("RANK", 0, "WORLD_SIZE", 2)),
       L::None,
       0,
       1,
       {"PMI_RANK=1, PMI_SIZE=2", "RANK=0, WORLD_SIZE=2", once}},
  };
  for (const Case &each : cases) {
    SCOPED_TRACE(each.name);
    Result<LaunchInfo> info = detectLaunch(each.environment);
    ASSERT_EQ(info.isOk(), each.refusal.empty()) << info.status().message();
    if (info.isOk()) {
      EXPECT_EQ(info->launcher, each.launcher);
      EXPECT_EQ(info->rank, each.rank);
      EXPECT_EQ(info->size, each.size);
      EXPECT_TRUE(info->localRank < info->localSize);
      EXPECT_EQ(info->size == 1, info->variables.empty());
      // What is of many is connected, or refused.
      EXPECT_EQ(checkConnected(*info).isOk(), each.launcher == L::Mpirun);
      continue;
    }
    EXPECT_EQ(info.status().code(), Code::Failed);
    for (const char *words : each.refusal)
      EXPECT_NE(info.status().message().find(words), std::string::npos)
          << info.status().message();
  }
}

TEST(Launch, WhatCannotBeConnectedIsToldWhatToDo) {
  auto refusal = [](const Environment &environment) {
    Result<LaunchInfo> info = detectLaunch(environment);
    EXPECT_TRUE(info.isOk()) << info.status().message();
    return info.isOk() ? checkConnected(*info).message() : "";
  };
  EXPECT_EQ(refusal(places("RANK", 1, "WORLD_SIZE", 2)),
            "the mpi backend cannot connect processes of torchrun (RANK=1, "
            "WORLD_SIZE=2): start the program once, without these variables, "
            "for all of its ranks on this host, with --backend tcp under "
            "torchrun or srun, or with mpirun of Open MPI");
  EXPECT_EQ(refusal(places("PMI_RANK", 1, "PMI_SIZE", 2)),
            "the mpi backend is Open MPI, which cannot connect processes of a "
            "PMI launcher such as mpiexec.hydra (PMI_RANK=1, PMI_SIZE=2): "
            "start the program once, without these variables, for all of its "
            "ranks on this host, with --backend tcp under torchrun or srun, or "
            "with mpirun of Open MPI");
  EXPECT_EQ(refusal(slurmStep(1, 2)),
            "the mpi backend needs PMIx to connect processes of srun "
            "(SLURM_PROCID=1, SLURM_STEP_NUM_TASKS=2, SLURM_LOCALID=1, "
            "SLURM_NODEID=0, SLURM_STEP_TASKS_PER_NODE=2): start the program "
            "with srun --mpi=pmix or mpirun, or with --backend tcp");
  EXPECT_EQ(refusal(with(slurmStep(1, 2), "PMIX_RANK", "1")), "");
  EXPECT_EQ(refusal(mpirun), "");
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
  expectRefused(without(slurm, "SLURM_LOCALID"), "SLURM_LOCALID");
  expectRefused(without(slurm, "SLURM_STEP_TASKS_PER_NODE"),
                "SLURM_STEP_TASKS_PER_NODE");
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
