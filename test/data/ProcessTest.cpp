//===- ProcessTest.cpp - What a program is given by who starts it ---------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "LinearProgram.h"

#include "data/File.h"
#include "main/Process.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <stdexcept>
#include <sys/stat.h>
#include <system_error>
#include <thread>

using namespace fsdp::rt::data;

namespace {

class ProcessTest : public LinearProgram {
protected:
  /// Runs `script` with the program's path, quoted, and `arguments` as $@.
  Outcome shell(const std::string &script, const Words &arguments,
                Words environment = {}) const {
    Words words = {"/bin/sh", "-c", script, LINEAR_EXE};
    words.insert(words.end(), arguments.begin(), arguments.end());
    environment.push_back("LINEAR_MESH=2");
    return runProgram(words, environment);
  }
  /// Fails the test unless each line is one of JSON, `count` of them.
  void expectMetrics(const std::string &path, int count) const {
    std::ifstream in(path);
    int lines = 0;
    for (std::string line; std::getline(in, line); ++lines)
      EXPECT_TRUE(nlohmann::json::accept(line)) << line;
    EXPECT_EQ(lines, count);
  }
};

//===----------------------------------------------------------------------===//
// Launchers
//===----------------------------------------------------------------------===//

TEST_F(ProcessTest, ProcessesThatCannotBeConnectedDoNotTrainOnTheirOwn) {
  Words saving = training(2, {"--save", dir.file("s")});
  for (auto [environment, message] : std::vector<std::pair<Words, std::string>>{
           {{"RANK=0", "WORLD_SIZE=2"}, "(RANK=0, WORLD_SIZE=2)"},
           {{"RANK=0", "WORLD_SIZE=2", "LOCAL_RANK=0", "LOCAL_WORLD_SIZE=2",
             "MASTER_ADDR=localhost"},
            "of torchrun (RANK=0, WORLD_SIZE=2, LOCAL_RANK=0, "
            "LOCAL_WORLD_SIZE=2)"},
           // Of more processes than the mesh, on several hosts.
           {{"RANK=0", "WORLD_SIZE=16", "LOCAL_RANK=0", "LOCAL_WORLD_SIZE=8"},
            "of torchrun (RANK=0, WORLD_SIZE=16"},
           {{"RANK=0"}, "(of RANK=0)"},
           {{"PMI_RANK=0", "PMI_SIZE=2"}, "(PMI_RANK=0, PMI_SIZE=2)"},
           {{"MV2_COMM_WORLD_RANK=0", "MV2_COMM_WORLD_SIZE=2"},
            "(MV2_COMM_WORLD_RANK=0, MV2_COMM_WORLD_SIZE=2)"},
           {{"PMIX_RANK=0"}, "PMIX_RANK=0"},
           {{"SLURM_PROCID=0", "SLURM_STEP_NUM_TASKS=2", "SLURM_LOCALID=0",
             "SLURM_NODEID=0", "SLURM_STEP_TASKS_PER_NODE=2"},
            "of srun (SLURM_PROCID=0, SLURM_STEP_NUM_TASKS=2"}}) {
    expectRefusal("2", saving, message, environment);
    expectRefusal("2", saving, "mpirun", environment);
    Words local = saving;
    local.push_back("--backend=local");
    expectRefusal("2", local, environment.front(), environment);
  }
}

TEST_F(ProcessTest, SingleProcessesHoldAllRanks) {
  for (const Words &environment :
       {Words{"RANK=0", "WORLD_SIZE=1"}, Words{"PMI_RANK=0", "PMI_SIZE=1"},
        Words{"SLURM_PROCID=0", "SLURM_NTASKS=4", "SLURM_LOCALID=0",
              "SLURM_NODEID=0"},
        Words{"SLURM_PROCID=0", "SLURM_NTASKS=4", "SLURM_STEP_NUM_TASKS=1",
              "SLURM_LOCALID=0", "SLURM_NODEID=0",
              "SLURM_STEP_TASKS_PER_NODE=1"}})
    runWell("2", training(1), environment);
}

TEST_F(ProcessTest, WhatOnlyPrintsNeedsNoRanks) {
  for (const char *option : {"--help", "--describe"})
    EXPECT_NE(runWell("2", {option}, {"RANK=1"}).out, "");
}

//===----------------------------------------------------------------------===//
// Closed streams
//===----------------------------------------------------------------------===//

TEST_F(ProcessTest, ClosedStreamsAreNobodysFiles) {
  std::vector<std::string> backends = {"local"};
  if (HAS_MPI && std::system("command -v mpirun > /dev/null") == 0)
    backends.push_back("mpi");
  int run = 0;
  for (const std::string &backend : backends)
    for (const char *closed :
         {"<&-", ">&-", "2>&-", "<&- >&-", "<&- >&- 2>&-"}) {
      std::string name = std::to_string(run++);
      Outcome outcome =
          shell("exec \"$0\" \"$@\" " + std::string(closed),
                training(3, {"--metrics", dir.file("m" + name), "--save",
                             dir.file("s" + name), "--profile",
                             dir.file("p" + name), "--backend", backend}));
      EXPECT_EQ(outcome.status, 0) << backend << " " << closed << outcome.err;
      expectMetrics(dir.file("m" + name), 3);
      EXPECT_TRUE(nlohmann::json::accept(readFile(dir.file("p" + name))));
    }
  // An error has nowhere to go, but its exit status.
  Outcome outcome = shell("exec \"$0\" \"$@\" <&- >&- 2>&-",
                          training(3, {"--metrics", dir.file("m"), "--data2"}));
  EXPECT_EQ(outcome.status, 1);
  EXPECT_FALSE(pathExists(dir.file("m")));
}

//===----------------------------------------------------------------------===//
// Limits
//===----------------------------------------------------------------------===//

TEST_F(ProcessTest, FilesBeyondTheLimitAreAnError) {
  Outcome outcome = shell("ulimit -f 2; exec \"$0\" \"$@\"",
                          training(2, {"--profile", dir.file("p")}));
  EXPECT_EQ(outcome.status, 1) << outcome.signal;
  EXPECT_CONTAINS(outcome.err, "--profile: cannot write '" + dir.file("p"));
  EXPECT_CONTAINS(outcome.err, "File too large (ulimit -f allows ");
  EXPECT_EQ(entriesOf(dir.path()),
            std::vector<std::string>{"batches.safetensors"});
}

TEST_F(ProcessTest, TinyStacksAreRefused) {
  Outcome outcome = shell("ulimit -s 128; exec \"$0\" \"$@\"", training(1));
  // A sanitizer may need more, and says so.
  EXPECT_NE(outcome.status, 0);
  if (outcome.signal == 0 && outcome.status == 1) {
    EXPECT_CONTAINS(outcome.err, "error: expected a stack of at least 256 KiB, "
                                 "got a limit of 128 KiB (ulimit -s)");
  }
  EXPECT_EQ(shell("ulimit -s 1024; exec \"$0\" \"$@\"", training(1)).status, 0);
}

TEST_F(ProcessTest, AProcessWithoutMemoryEnds) {
  // Sanitizers reserve terabytes.
  if (IS_SANITIZED)
    GTEST_SKIP() << "sanitizers need the address space";
  // From what is too little to load the libraries to what may be enough.
  for (int kibibytes :
       {60000, 100000, 150000, 200000, 260000, 290000, 310000}) {
    Outcome outcome =
        shell("ulimit -v " + std::to_string(kibibytes) + "; exec \"$0\" \"$@\"",
              training(1));
    EXPECT_EQ(outcome.signal, 0) << kibibytes;
    EXPECT_TRUE(outcome.status == 0 || outcome.status == 1) << outcome.status;
    if (outcome.status == 1)
      EXPECT_CONTAINS(outcome.err, "error: ");
  }
}

TEST(ProcessDeathTest, ExceptionsOfAnyThreadAreTold) {
  auto end = [](auto exception) {
    EXPECT_OK(fsdp::rt::prepareProcess());
    std::thread([&] { throw exception; }).join();
  };
  EXPECT_EXIT(end(std::bad_alloc()), testing::ExitedWithCode(1),
              "^error: out of memory\n$");
  EXPECT_EXIT(
      end(std::system_error(std::make_error_code(std::errc::no_such_device))),
      testing::ExitedWithCode(1), "^error: No such device\n$");
  EXPECT_EXIT(end(std::logic_error("x")), testing::ExitedWithCode(2),
              "^error: internal: x\n");
}

//===----------------------------------------------------------------------===//
// Temporary files
//===----------------------------------------------------------------------===//

TEST_F(ProcessTest, LinksWithAForeseeableNameLeadNowhere) {
  writeFile(dir.file("precious"), "precious");
  // $$ is what the program's process will be.
  Outcome outcome =
      shell("ln -s \"$PLACE/precious\" \"$PLACE/p.$$.tmp\"; "
            "exec \"$0\" \"$@\"",
            training(1, {"--profile", dir.file("p")}), {"PLACE=" + dir.path()});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(readFile(dir.file("precious")), "precious");
  EXPECT_TRUE(nlohmann::json::accept(readFile(dir.file("p"))));
}

TEST_F(ProcessTest, NewFilesArePermittedAsTheUmaskSays) {
  for (auto [mask, mode] : {std::pair("022", 0644), std::pair("077", 0600)}) {
    std::string path = dir.file(mask);
    Outcome outcome =
        shell("umask " + std::string(mask) + "; exec \"$0\" \"$@\"",
              training(1, {"--profile", path}));
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    struct stat info = {};
    EXPECT_EQ(::stat(path.c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, mode_t(mode));
  }
}

} // namespace
