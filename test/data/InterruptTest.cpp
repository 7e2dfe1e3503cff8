//===- InterruptTest.cpp - Signals that are only noted --------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "main/Interrupt.h"

#include <gtest/gtest.h>

#include <signal.h>
#include <unistd.h>

#include <thread>

namespace fsdp::test {
namespace {

using rt::InterruptGuard;
using rt::SignalBlock;

bool isBlocked(int signal) {
  sigset_t mask;
  pthread_sigmask(SIG_BLOCK, nullptr, &mask);
  return sigismember(&mask, signal) == 1;
}

TEST(Interrupt, IsNotedAtOnceAndHandledOnNoThreadThatComputes) {
  for (int signal : {SIGINT, SIGTERM, SIGHUP}) {
    {
      InterruptGuard guard;
      ASSERT_TRUE(guard.start().isOk());
      EXPECT_FALSE(InterruptGuard::wasRequested());
      EXPECT_TRUE(isBlocked(signal));
      std::thread([&] { EXPECT_TRUE(isBlocked(signal)); }).join();
      kill(getpid(), signal);
      EXPECT_TRUE(InterruptGuard::wasRequested());
      kill(getpid(), signal); // a copy
    }
    // What came until the end of the guard has not been left for afterwards.
    EXPECT_FALSE(isBlocked(signal));
  }
}

TEST(Interrupt, OfTheCallingThreadIsNoted) {
  InterruptGuard guard;
  ASSERT_TRUE(guard.start().isOk());
  raise(SIGINT);
  EXPECT_TRUE(InterruptGuard::wasRequested());
}

TEST(Interrupt, AHangupThatIsIgnoredStaysIgnored) {
  auto before = signal(SIGHUP, SIG_IGN);
  {
    InterruptGuard guard;
    ASSERT_TRUE(guard.start().isOk());
    kill(getpid(), SIGHUP);
    EXPECT_FALSE(InterruptGuard::wasRequested());
  }
  signal(SIGHUP, before);
}

TEST(InterruptDeathTest, AskedForAgainLaterEndsTheProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        InterruptGuard guard;
        if (guard.start().isOk())
          while (true) {
            kill(getpid(), SIGINT);
            usleep(600'000);
          }
      },
      testing::KilledBySignal(SIGINT), "");
}

TEST(Interrupt, FaultsOfAThreadAreNotBlocked) {
  SignalBlock block(SignalBlock::ofOthers());
  for (int signal : {SIGINT, SIGPROF, SIGALRM, SIGUSR1})
    EXPECT_TRUE(isBlocked(signal)) << signal;
  for (int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT})
    EXPECT_FALSE(isBlocked(signal)) << signal;
}

} // namespace
} // namespace fsdp::test
