//===- Subprocess.cpp - Running a program to its end ----------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Subprocess.h"

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <pty.h>
#include <sys/wait.h>
#include <unistd.h>

namespace fsdp::rt::data {

namespace {

constexpr auto timeLimit = std::chrono::minutes(1);

struct Pipe {
  int readEnd = -1, writeEnd = -1;
};

Pipe makePipe(bool isTerminal) {
  int ends[2];
  if (isTerminal) {
    EXPECT_EQ(::openpty(&ends[0], &ends[1], nullptr, nullptr, nullptr), 0);
    ::fcntl(ends[0], F_SETFD, FD_CLOEXEC);
    ::fcntl(ends[1], F_SETFD, FD_CLOEXEC);
  } else {
    EXPECT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  }
  return {ends[0], ends[1]};
}

} // namespace

Outcome runProgram(const std::vector<std::string> &words,
                   const std::vector<std::string> &environment,
                   const std::string &outTo, bool onTerminal) {
  Pipe out = makePipe(onTerminal), err = makePipe(false);
  std::vector<char *> argv;
  for (const std::string &word : words)
    argv.push_back(const_cast<char *>(word.c_str()));
  argv.push_back(nullptr);
  pid_t child = ::fork();
  if (child == 0) {
    ::setpgid(0, 0);
    int target = outTo.empty() ? out.writeEnd : ::open(outTo.c_str(), O_WRONLY);
    ::dup2(target, STDOUT_FILENO);
    ::dup2(err.writeEnd, STDERR_FILENO);
    ::dup2(::open("/dev/null", O_RDONLY), STDIN_FILENO);
    for (const std::string &variable : environment)
      ::putenv(const_cast<char *>(variable.c_str()));
    ::execv(argv[0], argv.data());
    ::_exit(127);
  }
  ::close(out.writeEnd);
  ::close(err.writeEnd);

  Outcome outcome;
  auto end = std::chrono::steady_clock::now() + timeLimit;
  pollfd streams[] = {{out.readEnd, POLLIN, 0}, {err.readEnd, POLLIN, 0}};
  std::string *texts[] = {&outcome.out, &outcome.err};
  for (int open = 2; open > 0;) {
    auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        end - std::chrono::steady_clock::now());
    if (::poll(streams, 2, std::max<int>(0, left.count())) == 0) {
      ADD_FAILURE() << words[0] << " did not end within a minute";
      ::kill(-child, SIGKILL);
      break;
    }
    for (int i = 0; i < 2; ++i) {
      if (!streams[i].revents)
        continue;
      char buffer[4096];
      ssize_t got = ::read(streams[i].fd, buffer, sizeof buffer);
      if (got > 0) {
        texts[i]->append(buffer, got);
      } else if (got == 0 || errno != EINTR) { // a terminal ends with EIO
        streams[i].fd = -1;
        --open;
      }
    }
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  ::close(out.readEnd);
  ::close(err.readEnd);
  if (WIFEXITED(status))
    outcome.status = WEXITSTATUS(status);
  if (WIFSIGNALED(status))
    outcome.signal = WTERMSIG(status);
  return outcome;
}

} // namespace fsdp::rt::data
