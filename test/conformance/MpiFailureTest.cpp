//===- MpiFailureTest.cpp - Failures under mpirun -------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "channels/mpi/MpiBackend.h"

#include <gtest/gtest.h>

#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace fsdp::test {
namespace {

using rt::Result;

std::string ownPath() {
  char path[4096];
  ssize_t length = readlink("/proc/self/exe", path, sizeof path);
  return std::string(path, length > 0 ? size_t(length) : 0);
}

int count(const std::string &text, const std::string &what) {
  int found = 0;
  for (size_t at = text.find(what); at != std::string::npos;
       at = text.find(what, at + 1))
    ++found;
  return found;
}

class MpiFailure : public testing::Test {
protected:
  void SetUp() override {
    if (std::getenv("OMPI_COMM_WORLD_RANK"))
      GTEST_SKIP() << "these tests start mpirun themselves";
    if (std::system("mpirun --version > /dev/null 2>&1") != 0)
      GTEST_SKIP() << "no mpirun on PATH";
    rt::LaunchInfo none;
    rt::Status status = rt::createMpiBackend(none, {}).status();
    if (status.message().find("built without") != std::string::npos)
      GTEST_SKIP() << status.message();
    // For the ranks of a sanitized build: Open MPI leaks at exit and takes its
    // own locks in varying order.
    setenv("ASAN_OPTIONS", "detect_leaks=0", 0);
    setenv("TSAN_OPTIONS",
           "detect_deadlocks=0:ignore_noninstrumented_modules=1", 0);
  }

  /// Runs the case on 3 ranks and keeps what they said.
  Result<int> launch(const std::string &name,
                     const std::string &directory = "") {
    std::vector<std::string> words = {ownPath(), "--case=" + name,
                                      "--directory=" + directory};
    std::vector<char *> argv;
    for (std::string &word : words)
      argv.push_back(word.data());
    argv.push_back(nullptr);
    testing::internal::CaptureStderr();
    testing::internal::CaptureStdout();
    Result<int> result = rt::launchUnderMpirun(3, argv.data());
    output_ = testing::internal::GetCapturedStdout();
    errors_ = testing::internal::GetCapturedStderr();
    return result;
  }

  /// The case fails with exit status `code` and tells `message`, once.
  void expectFailure(const std::string &name, int code,
                     const std::string &message) {
    Result<int> result = launch(name);
    ASSERT_TRUE(result.isOk()) << result.status().message() << errors_;
    EXPECT_EQ(*result, code) << errors_;
    EXPECT_EQ(count(errors_, "error: "), 1) << errors_;
    EXPECT_EQ(count(errors_, "error: " + message), 1) << errors_;
    EXPECT_EQ(count(errors_, "mpirun"), 0) << errors_;
  }

  /// Makes the next launches start a shell script in mpirun's place; true if
  /// it could be written. The fixture's end takes it back.
  bool replaceMpirun(const std::string &script) {
    directory_ = testing::TempDir() + "/fsdp-mpirun-XXXXXX";
    if (!mkdtemp(directory_.data()))
      return false;
    std::string path = directory_ + "/mpirun";
    std::ofstream(path) << "#!/bin/sh\n" << script;
    path_ = getenv("PATH");
    setenv("PATH", (directory_ + ":" + path_).c_str(), 1);
    return chmod(path.c_str(), 0755) == 0;
  }

  /// Launches in a child, which ends well if that fails with `message`.
  pid_t startAndExpect(const std::string &message) {
    pid_t child = fork();
    if (child != 0)
      return child;
    Result<int> result = launch("good");
    std::string got = result.isOk() ? "success" : result.status().message();
    bool isGood = got.find(message) != std::string::npos;
    if (!isGood)
      fprintf(stderr, "%s\n%s", got.c_str(), errors_.c_str());
    _exit(isGood ? 0 : 1);
  }

  static bool hasEndedWell(pid_t child) {
    int status = -1;
    waitpid(child, &status, 0);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }

  /// The number that a script writes to a file of its directory; waits for it.
  pid_t readPid(const std::string &name) const {
    pid_t pid = 0;
    for (int i = 0; i < 3000 && !pid; ++i) {
      std::ifstream(directory_ + "/" + name) >> pid;
      if (!pid)
        usleep(10'000);
    }
    EXPECT_GT(pid, 0) << name;
    return pid;
  }

  void TearDown() override {
    if (directory_.empty())
      return;
    setenv("PATH", path_.c_str(), 1);
    std::filesystem::remove_all(directory_);
  }

  std::string output_, errors_;
  std::string directory_, path_;
};

/// Waits up to half a minute for a process that has this number.
bool isGone(pid_t pid) {
  for (int i = 0; i < 3000 && kill(pid, 0) == 0; ++i)
    usleep(10'000);
  return kill(pid, 0) != 0;
}

TEST_F(MpiFailure, ReturnsTheExitStatusOfTheJob) {
  Result<int> result = launch("good");
  ASSERT_TRUE(result.isOk()) << result.status().message() << errors_;
  EXPECT_EQ(*result, 0);
  EXPECT_EQ(errors_, "");
}

TEST_F(MpiFailure, OneRankTellsTheReason) {
  expectFailure("fail", 1, "rank 2: disk on fire\n");
}

TEST_F(MpiFailure, BetweenLargeMessages) {
  expectFailure("fail-large", 1, "rank 2: disk on fire\n");
}

TEST_F(MpiFailure, OfAllRanksAtOnceOneTells) {
  expectFailure("fail-all", 1, "rank ");
  EXPECT_NE(errors_.find("params.safetensors: truncated\n"), std::string::npos)
      << errors_;
}

TEST_F(MpiFailure, AbortInTheMiddleOfACollective) {
  expectFailure("abort", 1, "rank 2: enough\n");
}

TEST_F(MpiFailure, OfOneRankWhileOthersHaveTransfersUnderWay) {
  expectFailure("queues-fail", 1, "rank 2: disk on fire\n");
}

TEST_F(MpiFailure, AbortWhileQueuesWork) {
  expectFailure("queues-abort", 1, "rank 2: enough\n");
}

TEST_F(MpiFailure, ExceptionsBecomeFailures) {
  expectFailure("throw", 2, "rank 2: unexpected exception: surprise\n");
}

TEST_F(MpiFailure, WaitingForARankThatHasEndedFails) {
  for (const char *name : {"leave", "leave-early"}) {
    expectFailure(name, 1, "rank ");
    EXPECT_NE(errors_.find("expected rank 2 in the barrier"), std::string::npos)
        << errors_;
  }
}

TEST_F(MpiFailure, DifferentCollectivesAreNamed) {
  expectFailure("mismatch", 2, "rank ");
  EXPECT_NE(errors_.find("all_gather of 8 x U8"), std::string::npos) << errors_;
  EXPECT_NE(errors_.find("broadcast of 16 x U8 from root 0"), std::string::npos)
      << errors_;
}

TEST_F(MpiFailure, RanksThatDoNotEndAreEnded) {
  Result<int> result = launch("stuck");
  ASSERT_TRUE(result.isOk()) << result.status().message() << errors_;
  EXPECT_EQ(*result, 1) << errors_;
  EXPECT_EQ(count(errors_, "error: rank 2: disk on fire\n"), 1) << errors_;
}

TEST_F(MpiFailure, AKilledRankIsNamed) {
  for (const char *name : {"kill", "queues-kill"}) {
    Result<int> result = launch(name);
    ASSERT_FALSE(result.isOk()) << *result << errors_;
    EXPECT_EQ(result.status().message(),
              "rank 2 was killed by signal 9 (Killed)");
    EXPECT_EQ(count(errors_, "mpirun"), 0) << errors_;
  }
}

TEST_F(MpiFailure, SignalsReachTheRanks) {
  std::string directory = testing::TempDir() + "/fsdp-mpi-XXXXXX";
  ASSERT_NE(mkdtemp(directory.data()), nullptr);
  std::string ready = directory + "/ready";
  pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    Result<int> result = launch("interrupt", directory);
    bool isGood = result.isOk() && *result == 0 &&
                  output_.find("ended after the step") != std::string::npos;
    if (!isGood)
      fprintf(stderr, "%s%s%s", result.status().message().c_str(),
              output_.c_str(), errors_.c_str());
    _exit(isGood ? 0 : 1);
  }
  int status = -1;
  while (access(ready.c_str(), F_OK) != 0 &&
         waitpid(child, &status, WNOHANG) == 0)
    usleep(10'000);
  kill(child, SIGINT);
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  unlink(ready.c_str());
  rmdir(directory.c_str());
}

TEST_F(MpiFailure, AnMpirunThatDoesNotEndIsKilledWithItsRanks) {
  // Like an mpirun that is busy: it takes no signal, and neither does a rank.
  ASSERT_TRUE(replaceMpirun("trap '' INT TERM\n"
                            "sleep 600 & echo $! > \"$0.rank\"\n"
                            "echo $$ > \"$0.pid\"\n"
                            "while :; do sleep 0.1; done\n"));
  pid_t child = startAndExpect("mpirun did not end within");
  ASSERT_GE(child, 0);
  pid_t mpirun = readPid("mpirun.pid"), rank = readPid("mpirun.rank");
  kill(child, SIGTERM); // to the ranks
  usleep(200'000);      // two at once would be one
  kill(child, SIGTERM); // to mpirun
  EXPECT_TRUE(hasEndedWell(child));
  EXPECT_TRUE(isGone(mpirun));
  EXPECT_TRUE(isGone(rank));
}

TEST_F(MpiFailure, AnEndBeforeTheRanksHaveBegunIsTold) {
  ASSERT_TRUE(replaceMpirun("echo $$ > \"$0.pid\"; exec sleep 600\n"));
  pid_t child = startAndExpect("interrupted, and not at the end of a step");
  ASSERT_GE(child, 0);
  readPid("mpirun.pid");
  kill(child, SIGTERM);
  EXPECT_TRUE(hasEndedWell(child));
}

TEST_F(MpiFailure, AFailureOfMpirunItselfIsTold) {
  ASSERT_TRUE(replaceMpirun("echo no room >&2; exit 243\n"));
  Result<int> result = launch("good");
  ASSERT_FALSE(result.isOk());
  EXPECT_EQ(result.status().message(),
            "mpirun ended with exit status 243, and no rank has told an error");
  EXPECT_EQ(result.status().code(), rt::Code::Failed);
  EXPECT_EQ(errors_, "no room\n");
}

TEST_F(MpiFailure, NeedsNoEnvironment) {
  if (access("/usr/bin/mpirun", X_OK) != 0)
    GTEST_SKIP() << "without a PATH, mpirun would not be found";
  // Without one, Open MPI finds no ssh either.
  std::string before = getenv("PATH");
  unsetenv("PATH");
  Result<int> result = launch("good");
  setenv("PATH", before.c_str(), 1);
  ASSERT_TRUE(result.isOk()) << result.status().message() << errors_;
  EXPECT_EQ(*result, 0) << errors_;
}

TEST_F(MpiFailure, RefusesWhatCannotStart) {
  char *nothing[] = {nullptr};
  EXPECT_FALSE(rt::launchUnderMpirun(2, nothing).isOk());
  std::string path = ownPath();
  char *self[] = {path.data(), nullptr};
  EXPECT_FALSE(rt::launchUnderMpirun(0, self).isOk());
  EXPECT_NE(rt::launchUnderMpirun(rt::maxRanksOnHost + 1, self)
                .status()
                .message()
                .find("expected 1 to 1024 ranks"),
            std::string::npos);
  setenv("OMPI_COMM_WORLD_RANK", "0", 1);
  EXPECT_FALSE(rt::launchUnderMpirun(2, self).isOk());
  unsetenv("OMPI_COMM_WORLD_RANK");
  std::string before = getenv("PATH");
  setenv("PATH", "/nowhere", 1);
  Result<int> result = rt::launchUnderMpirun(2, self);
  setenv("PATH", before.c_str(), 1);
  ASSERT_FALSE(result.isOk());
  EXPECT_NE(result.status().message().find("cannot start mpirun"),
            std::string::npos)
      << result.status().message();
}

TEST_F(MpiFailure, RefusesProcessesThatMpiCannotConnect) {
  rt::LaunchInfo info;
  info.size = 4;
  info.launcher = rt::Launcher::Torchrun;
  EXPECT_NE(rt::createMpiBackend(info, {}).status().message().find(
                "mpirun of Open MPI"),
            std::string::npos);
  info.launcher = rt::Launcher::Slurm;
  EXPECT_NE(rt::createMpiBackend(info, {}).status().message().find("PMIx"),
            std::string::npos);
  rt::MpiBackendOptions options;
  options.chunkBytes = int64_t(1) << 40;
  EXPECT_NE(
      rt::createMpiBackend(info, options).status().message().find("messages"),
      std::string::npos);
}

} // namespace
} // namespace fsdp::test
