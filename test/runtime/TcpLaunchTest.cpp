//===- TcpLaunchTest.cpp - Ranks as processes of this host ----------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "channels/tcp/TcpBackend.h"
#include "core/Clock.h"

#include <gtest/gtest.h>

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <string>
#include <thread>

namespace fsdp::rt {
namespace {

Result<int> launch(std::string script, const TcpLaunchOptions &options = {}) {
  std::string shell = "/bin/sh", option = "-c";
  char *argv[] = {shell.data(), option.data(), script.data(), nullptr};
  return launchProcesses(2, argv, options);
}

void sleepFor(int milliseconds) {
  std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
}

/// launch() in a process of its own, whose exit status is its result. A SIGTERM
/// that comes before it is handled waits until then.
class Launcher {
public:
  explicit Launcher(const std::string &script, void (*prepare)() = nullptr) {
    sigset_t term, before;
    sigemptyset(&term);
    sigaddset(&term, SIGTERM);
    sigprocmask(SIG_BLOCK, &term, &before);
    process_ = fork();
    if (process_ != 0) {
      sigprocmask(SIG_SETMASK, &before, nullptr);
      return;
    }
    if (prepare)
      prepare();
    Result<int> code = launch(script);
    constexpr int hasFailed = 99;
    _exit(code.isOk() ? *code : hasFailed);
  }
  ~Launcher() {
    if (!hasEnded()) {
      kill(process_, SIGKILL);
      waitpid(process_, nullptr, 0);
    }
  }
  void send(int signal) const { kill(process_, signal); }
  bool hasEnded() {
    return hasEnded_ ||
           (hasEnded_ = waitpid(process_, &status_, WNOHANG) == process_);
  }
  /// -1 where it has not ended within 10 s, or by a signal.
  int wait() {
    for (int i = 0; i < 1000 && !hasEnded(); ++i)
      sleepFor(10);
    return hasEnded() && WIFEXITED(status_) ? WEXITSTATUS(status_) : -1;
  }

private:
  pid_t process_ = -1;
  int status_ = 0;
  bool hasEnded_ = false;
};

TEST(TcpLaunch, RanksHaveTheirPlaces) {
  Result<int> code = launch(
      "test $WORLD_SIZE.$LOCAL_WORLD_SIZE.$LOCAL_RANK = 2.2.$RANK || exit 2\n"
      "if [ $RANK = 0 ]; then test -e /proc/$$/fd/$FSDP_RENDEZVOUS_FD; "
      "else test -z \"$FSDP_RENDEZVOUS_FD\"; fi");
  ASSERT_TRUE(code.isOk()) << code.status().message();
  EXPECT_EQ(*code, 0);
}

TEST(TcpLaunch, ARankThatFailsEndsTheOthers) {
  TcpLaunchOptions options;
  options.graceSeconds = options.terminationSeconds = 0.3;
  for (const char *waits :
       {"exec sleep 60", "trap '' TERM; exec sleep 60", "exit 0"}) {
    int64_t begin = nowNanoseconds();
    Result<int> code =
        launch("[ $RANK = 1 ] && exit 3; " + std::string(waits), options);
    ASSERT_TRUE(code.isOk()) << code.status().message();
    EXPECT_EQ(*code, 3) << waits;
    EXPECT_LT(nowNanoseconds() - begin, 10'000'000'000) << waits;
  }
}

TEST(TcpLaunch, ARankThatIsKilledIsNamed) {
  TcpLaunchOptions options;
  options.graceSeconds = 0.1;
  Result<int> code =
      launch("[ $RANK = 1 ] && kill -KILL $$; exec sleep 60", options);
  EXPECT_EQ(code.status().message(), "rank 1: killed by signal 9 (Killed)");
}

TEST(TcpLaunch, WhatCannotBeStarted) {
  std::string missing = "/nonexistent/program";
  char *argv[] = {missing.data(), nullptr};
  testing::internal::CaptureStderr();
  Result<int> code = launchProcesses(1, argv);
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "error: cannot start a process for rank 0: /nonexistent/program: "
            "No such file or directory\n");
  ASSERT_TRUE(code.isOk()) << code.status().message();
  EXPECT_EQ(*code, 126);
}

TEST(TcpLaunch, TwoInterruptsAreNoSuccess) {
  Launcher launcher("trap '' INT; exec sleep 60");
  for (int i = 0; i < 100 && !launcher.hasEnded(); ++i) {
    launcher.send(SIGTERM);
    sleepFor(100);
  }
  EXPECT_EQ(launcher.wait(), 128 + SIGTERM);
}

TEST(TcpLaunch, WhatIsIgnoredStaysIgnored) {
  Launcher launcher("sleep 0.6", [] { signal(SIGHUP, SIG_IGN); });
  sleepFor(300);
  for (int i = 0; i < 2; ++i) {
    launcher.send(SIGHUP);
    sleepFor(50);
  }
  EXPECT_EQ(launcher.wait(), 0);
}

} // namespace
} // namespace fsdp::rt
