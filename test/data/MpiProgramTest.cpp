//===- MpiProgramTest.cpp - Programs and sessions under mpirun ------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "LinearProgram.h"

#include "core/data/File.h"

#include <algorithm>
#include <cstdlib>

using namespace fsdp::rt::data;

namespace {

class MpiProgramTest : public LinearProgram {
protected:
  void SetUp() override {
    if (!HAS_MPI)
      GTEST_SKIP() << "this build has no mpi backend";
    if (std::system("command -v mpirun > /dev/null") != 0)
      GTEST_SKIP() << "there is no mpirun on the path";
    // Open MPI's own: memory that it keeps to its end, and locks that it takes
    // in two orders.
    ::setenv("LSAN_OPTIONS", "detect_leaks=0", 0);
    ::setenv("TSAN_OPTIONS",
             "ignore_noninstrumented_modules=1:detect_deadlocks=0", 0);
  }
  std::string params(const std::string &saves) {
    return readFile(saves + "/step-00000004/params.safetensors");
  }
};

TEST_F(MpiProgramTest, EqualsTheLocalBackend) {
  std::string metrics = dir.file("m");
  runWell("2", training(4, {"--save", dir.file("a"), "-n2", "--backend=mpi",
                            "--metrics", metrics, "--save-every=2"}));
  runWell("2", training(4, {"--save", dir.file("b")}));
  EXPECT_EQ(params(dir.file("a")), params(dir.file("b")));
  std::string lines = readFile(metrics);
  EXPECT_EQ(std::count(lines.begin(), lines.end(), '\n'), 4);
}

TEST_F(MpiProgramTest, ALibraryIsStartedAgainAsItWas) {
  Words words = {FSDP_RUN, LINEAR_SO};
  for (const std::string &word :
       training(4, {"--save", dir.file("a"), "--backend", "mpi"}))
    words.push_back(word);
  Outcome outcome = runProgram(words, {"LINEAR_MESH=2"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_CONTAINS(outcome.out, "done: 4 steps");
  EXPECT_EQ(outcome.out.find('\r' + std::string("\x1b")), std::string::npos);
  EXPECT_TRUE(pathExists(dir.file("a/latest")));
}

TEST_F(MpiProgramTest, FailuresAreToldOnce) {
  for (auto [flaw, message] : std::vector<std::pair<std::string, std::string>>{
           {"check:2", "step 2: rank"},
           {"interrupt:2", "interrupted at step 2"}}) {
    Outcome outcome =
        run("2", training(3, {"--backend=mpi"}), {"LINEAR_FLAW=" + flaw});
    EXPECT_EQ(outcome.status, 1);
    EXPECT_CONTAINS(outcome.err, message);
    size_t first = outcome.err.find("error: ");
    EXPECT_NE(first, std::string::npos);
    EXPECT_EQ(outcome.err.find("error: ", first + 1), std::string::npos)
        << outcome.err;
  }
}

TEST_F(MpiProgramTest, SessionsAreRanks) {
  Outcome outcome = runProgram({"/usr/bin/env", "mpirun", "--oversubscribe",
                                "--allow-run-as-root", "-n", "2", SESSION_TEST,
                                LINEAR_EXE, dir.file("shared")},
                               {"LINEAR_MESH=2"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
}

} // namespace
